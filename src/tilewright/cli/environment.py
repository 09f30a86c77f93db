"""Check of the environment variables, before a command does any work."""

from __future__ import annotations

import os
from collections.abc import Callable

from tilewright.support.cache import default_limit
from tilewright.support.environment import flag
from tilewright.support.errors import TVMError


def check_environment() -> None:
    """Raises TVMError if variables that are set have wrong values: all of them in one message.

    Each value is read as the library reads it at first use.
    """
    faults = []
    for names, read in READERS.items():
        if any([os.environ.get(name) for name in names]):
            try:
                read()
            except (TVMError, ValueError) as error:
                faults.append(str(error))
    if faults:
        raise TVMError("\n".join(faults))


def _read_threads() -> None:
    from tilewright import runtime

    runtime.num_threads()


def _read_features() -> None:
    from tilewright.runtime.packed_func import global_func

    global_func("runtime.MissingCPUFeatures")()


def _read_style() -> None:
    from tilewright.script.highlight import default_theme

    default_theme()


READERS: dict[tuple[str, ...], Callable[[], object]] = {
    ("TVM_NUM_THREADS", "OMP_NUM_THREADS"): _read_threads,
    ("TILEWRIGHT_CPU_WITHOUT",): _read_features,
    ("TILEWRIGHT_CACHE_BYTES",): default_limit,
    ("TVM_PYGMENTIZE_STYLE",): _read_style,
    ("TVM_BLACK_FORMAT",): lambda: flag("TVM_BLACK_FORMAT"),
}
"""Functions that read variables whose values can be wrong. Folders, compilers and variables of tests are checked when they are used."""
