"""`make fuzz COUNT=1000 SEED=7`: checks that many random programs, and shows the smallest form of each failure."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.check import Mismatch, report, smallest, steps_of
from tests.fuzz.worker import Worker


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("`: ")[1])
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--steps", help="only these steps of the schedule, such as 0,3 (or none); for one program")
    parser.add_argument("--most", type=int, default=5, help="stop after this many failures")
    options = parser.parse_args(argv)
    worker = Worker()
    start = shown = time.monotonic()
    failures = applied = done = 0
    for seed in range(options.seed, options.seed + options.count):
        steps = steps_of(seed)
        if options.steps is not None:
            steps = [] if options.steps == "none" else [int(n) for n in options.steps.split(",")]
        try:
            applied += len(worker.check(seed, steps))
        except Mismatch as failure:
            failures += 1
            clear()
            print(report(seed, *smallest(worker.check, seed, steps, failure)), end="\n\n", flush=True)
        done += 1
        now = time.monotonic()
        if now - shown > 0.5 and sys.stderr.isatty() or now - shown > 20:
            shown, rate = now, done / (now - start)
            left = (options.count - done) / rate
            text = f"{done} of {options.count} programs, {failures} failures, {rate:.1f} a second, {left:.0f} s left"
            print(
                f"\r\033[K{text}" if sys.stderr.isatty() else text,
                end="" if sys.stderr.isatty() else "\n",
                file=sys.stderr,
            )
            sys.stderr.flush()
        if failures >= options.most:
            break
    clear()
    worker.stop()
    seconds = time.monotonic() - start
    print(
        f"{done} programs from seed {options.seed}, {applied} schedule steps, {failures} failures,"
        f" {done / seconds:.1f} programs a second",
        file=sys.stderr,
    )
    return int(failures > 0)


def clear() -> None:
    """Removes the line of progress."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
