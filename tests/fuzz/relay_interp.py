"""`python -m tests.fuzz.relay_interp --count 500`: random relay programs, compiled by LLVM and run in the oracle as a target of its own:
by the graph executor, as one entry, or in the virtual machine. Both must give the same values, and the oracle must find no access outside
of a buffer, no read of what was never written, and no race."""

from __future__ import annotations

import random
import sys
import traceback

import numpy as np

from tests.fuzz.relay_programs import flat_values, main, same
from tests.generators.relay_language import Program
from tilewright import relay
from tilewright.support.errors import TVMError


def drive(seed: int, compiled: bool = True) -> tuple[str, str]:
    """ "ran", or what went wrong with the program of a seed, and its text."""
    rng = random.Random(seed)
    flat, text = rng.random() < 0.5, ""
    executor = rng.choice(["graph", "aot"]) if flat else "vm"
    target = "drawing"
    try:
        program = Program(seed, flat)
        inputs = program.inputs()
        text = repr(program.mod)
        values: list[list[np.ndarray]] = []
        for target in ("llvm", "interp"):
            made = relay.create_executor(executor, program.mod, target=target)
            values.append(flat_values(made.evaluate()(*inputs)))
        same(values[1], values[0])
    except AssertionError as error:
        return f"BAD {executor}: the oracle gives other results: {' '.join(str(error).split())[:300]}", text
    except TVMError as error:
        return f"BAD {executor}, {target}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", text
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno} {where.name}"
        return f"BAD {executor}, {target}: {type(error).__name__}: {str(error)[:200]} at {place}", text
    return "ran", text


if __name__ == "__main__":
    sys.exit(main(None, drive, __doc__ or ""))
