"""`python -m tests.fuzz.families --count 200 --seed 7`: every family of random programs, one after the other, whatever those before
found; then a table of them. Ends with 1 where a family found something."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.fuzz.caches import own_cache


class Family(NamedTuple):
    """A module that takes --count and --seed; `times` as many programs as are asked for."""

    module: str
    times: int = 1
    more: tuple[str, ...] = ()


FAMILIES = (
    Family("tests.fuzz"),
    Family("tests.fuzz.loops"),
    Family("tests.arith.fuzz", 10),
    Family("tests.fuzz.onnx.graphs"),
    Family("tests.fuzz.files.mutations"),
    Family("tests.fuzz.relay_programs", 1, ("--vm",)),
    Family("tests.fuzz.relay_damage", 1, ("--vm",)),
    Family("tests.fuzz.relay_passes"),
    Family("tests.fuzz.relay_interp"),
    Family("tests.fuzz.schedules", 4),
    Family("tests.fuzz.rpc_messages", 50),
)


def run(families: Sequence[Family], count: int, seed: int) -> int:
    """Runs families, prints the table, and returns 0 where none found anything."""
    rows = []
    for family in families:
        numbers = ["--count", str(family.times * count), "--seed", str(seed)]
        print(f"--- {family.module} {' '.join(numbers)}", flush=True)
        start = time.monotonic()
        code = subprocess.run([sys.executable, "-m", family.module, *numbers, *family.more], check=False).returncode
        rows.append((family.module, numbers[1], time.monotonic() - start, code))
    print(f"\n{'family':<26} {'programs':>9} {'seconds':>8}  result")
    for module, programs, seconds, code in rows:
        found = "nothing found" if code == 0 else f"FOUND SOMETHING (exit code {code})"
        print(f"{module:<26} {programs:>9} {seconds:>8.0f}  {found}")
    return int(any([code != 0 for *_, code in rows]))


@own_cache()
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.families", description=(__doc__ or "").split("`: ")[1])
    parser.add_argument("--count", type=int, default=200, help="how many programs of each family")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    options = parser.parse_args(arguments)
    return run(FAMILIES, options.count, options.seed)


if __name__ == "__main__":
    sys.exit(main())
