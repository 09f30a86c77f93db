"""Makes a board the accelerator in a file: `python -m tilewright.vta.program_bitstream sim FILE`.

The simulated board of this process takes the file itself. Of other boards a driver in this process does, which registers a function
`vta.<target>.program`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.runtime import get_global_func
from tilewright.support.errors import TVMError
from tilewright.vta.simulator.native import device_function


def _by_driver(target: str, *args: object) -> None:
    """Calls the driver of a type of boards. TVMError where there is none."""
    name = f"vta.{target}.program"
    program = get_global_func(name, allow_missing=True)
    if program is None:
        raise TVMError(f"boards of type {target!r} are programmed by their driver, but none has registered {name!r}")
    program(*args)


def pynq_bitstream_program(bitstream_path: str) -> None:
    """Gives a board of PYNQ its file."""
    _by_driver("pynq", bitstream_path)


def de10nano_bitstream_program(bitstream_path: str) -> None:
    """Gives a DE10-Nano its file."""
    _by_driver("de10nano", bitstream_path)


def intelfocl_bitstream_program(bitstream_path: str, mem_size: int = 4 << 30) -> None:
    """Gives a board that is reached through OpenCL its file. mem_size: bytes of its memory."""
    _by_driver("intelfocl", bitstream_path, mem_size)


_BOARDS = {
    **dict.fromkeys(("pynq", "ultra96"), pynq_bitstream_program),
    "de10nano": de10nano_bitstream_program,
    "intelfocl": intelfocl_bitstream_program,
}


def bitstream_program(target: str, bitstream: str, *args: int) -> None:
    """Makes a board the accelerator in a file. target: "sim" or "tsim" for device 0 of this process; of others the
    driver does it, with args. TVMError for targets that are not known, and where there is no driver."""
    if target in ("sim", "tsim"):
        device_function("configure")(0, Path(bitstream).read_text())
    elif target in _BOARDS:
        _BOARDS[target](bitstream, *args)
    else:
        raise TVMError(f"there are no boards of type {target!r}; there are {', '.join(['sim', 'tsim', *_BOARDS])}")


def main() -> int:
    """Programs a board; exits with 1 and the reason where the file describes none, or where there is no driver."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("target", help=", ".join(["sim", "tsim", *_BOARDS]))
    options.add_argument("bitstream", help="the file of `vta.download_bitstream`, or of the board's own tools")
    given = options.parse_args()
    try:
        bitstream_program(given.target, given.bitstream)
    except (OSError, ValueError, TVMError) as error:
        print(f"program_bitstream: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
