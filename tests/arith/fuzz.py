"""Random expressions: every answer of the analyzer against evaluation at all points of a small domain.

    python -m tests.arith.fuzz --count 10000 --seed 7

A failure is shown as its smallest expression, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.arith.checks import check, failure_of, random_case, smallest

KINDS = ["value"] * 8 + ["scope"] * 4 + ["vector"] * 2 + ["float", "narrow", "deduce", "deduce"]
"""What is drawn, by weight."""


def kind_of(index: int) -> str:
    return KINDS[index * 7 % len(KINDS)]


def run(count: int, seed: int, only: str | None = None, most: int = 5) -> tuple[Counter[str], list[str]]:
    """(cases that were checked at some point, by kind; reports of failures)."""
    checked: Counter[str] = Counter()
    failures: list[str] = []
    start = shown = time.monotonic()
    for index in range(count):
        kind = only or kind_of(index)
        case = random_case(kind, f"{kind}:{seed}:{index}")
        try:
            checked[kind] += check(case)
        except Exception:
            found = failure_of(case) or "it failed once only"
            small, text = smallest(case, found)
            failures.append(
                f"{text}\n{small}\n  repeat: python -m tests.arith.fuzz --seed {seed} --kind {kind} --index {index}"
            )
            print(failures[-1], end="\n\n", flush=True)
            if len(failures) >= most:
                break
        now = time.monotonic()
        if now - shown > 20:
            shown = now
            rate = (index + 1) / (now - start)
            left = (count - index - 1) / rate
            print(
                f"{index + 1} of {count} expressions, {len(failures)} failures, {rate:.0f} a second, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
    return checked, failures


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.arith.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many expressions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(set(KINDS)), help="only this kind of expression")
    parser.add_argument("--index", type=int, help="only this expression; with --kind")
    parser.add_argument("--most", type=int, default=5, help="stop after this many failures")
    options = parser.parse_args(argv)
    if options.index is not None:
        case = random_case(options.kind, f"{options.kind}:{options.seed}:{options.index}")
        found = failure_of(case)
        print(case, found or "passes", sep="\n")
        if found:
            print(*reversed(smallest(case, found)), sep="\n")
        return int(found is not None)
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
