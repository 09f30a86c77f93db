"""Makes the simulated board of this process the accelerator in a file: `python -m vta.program_bitstream sim FILE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.vta.simulator.native import device_function


def bitstream_program(target: str, bitstream: str, *args: object) -> None:
    """Makes device 0 of this process the accelerator in a file. target: "sim" or "tsim"; TVMError for boards, which have tools of their
    own."""
    if target not in ("sim", "tsim"):
        raise TVMError(f"boards of type {target!r} are programmed by their own tools; known here are sim and tsim")
    device_function("configure")(0, Path(bitstream).read_text())


def main() -> int:
    """Checks a file by making a board of it; exits with 1 and the reason where it describes none."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("target", help="sim or tsim")
    options.add_argument("bitstream", help="the file of `vta.download_bitstream`")
    given = options.parse_args()
    try:
        bitstream_program(given.target, given.bitstream)
    except (OSError, ValueError, TVMError) as error:
        print(f"program_bitstream: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
