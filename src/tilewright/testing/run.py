"""Running a test file as a script."""

from __future__ import annotations

import inspect
import sys


def main() -> None:
    """Runs the tests of the calling file under pytest, with the command line's arguments, and exits.

    if __name__ == "__main__":
        tvm.testing.main()
    """
    import pytest

    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    test_file = frame.f_back.f_globals.get("__file__", "<unknown>")
    # A conftest.py may load the plugin as well, by its name.
    sys.exit(pytest.main([str(test_file), "-p", "tilewright.testing.plugin", *sys.argv[1:]]))
