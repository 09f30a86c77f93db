"""Random expressions: every answer of the analyzer against evaluation at all points of a small domain.

    python -m tests.arith.fuzz --count 10000 --seed 7

A failure is shown as its smallest expression, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.arith.checks import check, failure_of, random_case, smallest
from tests.arith.systems import check_equations, check_inequalities, check_iter_map, check_region

SYSTEMS: dict[str, Callable[[random.Random], bool]] = {
    "equations": check_equations,
    "inequalities": check_inequalities,
    "iter_map": check_iter_map,
    "region": check_region,
}
KINDS = ["value"] * 11 + ["scope"] * 6 + ["vector"] * 3 + ["float", "narrow", "deduce", "deduce", *SYSTEMS]
"""What is drawn, by weight."""


def kind_of(index: int) -> str:
    return KINDS[index * 11 % len(KINDS)]


def run_one(kind: str, seed: int, index: int) -> tuple[bool, str]:
    """(whether any point was checked, what is wrong, in its smallest form)."""
    name = f"{kind}:{seed}:{index}"
    if kind in SYSTEMS:
        try:
            return SYSTEMS[kind](random.Random(name)), ""
        except Exception as e:
            return True, f"{kind}: {type(e).__name__}: {e}"
    case = random_case(kind, name)
    try:
        return check(case), ""
    except Exception:
        small, text = smallest(case, failure_of(case) or "it failed once only")
        return True, f"{text}\n{small}"


def run(count: int, seed: int, only: str | None = None, most: int = 5) -> tuple[Counter[str], list[str]]:
    """(cases that were checked at some point, by kind; reports of failures)."""
    checked: Counter[str] = Counter()
    failures: list[str] = []
    start = shown = time.monotonic()
    index = -1
    for index in range(count) if count else itertools.count():
        kind = only or kind_of(index)
        said, wrong = run_one(kind, seed, index)
        checked[kind] += said
        if wrong:
            failures.append(
                f"{wrong}\n  repeat: python -m tests.arith.fuzz --seed {seed} --kind {kind} --index {index}"
            )
            print(failures[-1], end="\n\n", flush=True)
            if len(failures) >= most:
                break
        now = time.monotonic()
        if now - shown > 20:
            shown = now
            rate = (index + 1) / (now - start)
            left = f" of {count}" if count else "", f", {(count - index - 1) / rate:.0f} s left" if count else ""
            print(
                f"{index + 1}{left[0]} expressions, {len(failures)} failures, {rate:.0f} a second{left[1]}",
                file=sys.stderr,
                flush=True,
            )
    return checked, failures


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.arith.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many expressions; 0: until stopped")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(set(KINDS)), help="only this kind of expression")
    parser.add_argument("--index", type=int, help="only this expression; with --kind")
    parser.add_argument("--most", type=int, default=5, help="stop after this many failures")
    options = parser.parse_args(argv)
    if options.index is not None:
        wrong = run_one(options.kind, options.seed, options.index)[1]
        print(wrong or "passes")
        return int(bool(wrong))
    start = time.monotonic()
    checked, failures = run(options.count, options.seed, options.kind, options.most)
    seconds = time.monotonic() - start
    parts = ", ".join(f"{n} {kind}" for kind, n in sorted(checked.items()))
    print(
        f"{options.count} expressions from seed {options.seed} in {seconds:.0f} s, {sum(checked.values())} with a"
        f" defined point ({parts}), {len(failures)} failures",
        file=sys.stderr,
    )
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
