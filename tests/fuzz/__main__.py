"""`make fuzz COUNT=1000 SEED=7`: checks that many random programs, and shows the smallest form of each failure."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections import Counter

from tests.fuzz.check import Mismatch
from tests.fuzz.progress import Progress
from tests.fuzz.shrink import report, smallest
from tests.fuzz.worker import Pool, Worker
from tests.generators.case import LARGEST, Recipe


def numbers(text: str) -> tuple[int, ...]:
    """`0,3` or `none`."""
    return () if text == "none" else tuple([int(n) for n in text.split(",")])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("`: ")[1])
    parser.add_argument("--count", type=int, default=200, help="how many programs; 0: until interrupted")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="how many processes")
    parser.add_argument("--stages", type=numbers, help="only these stages of the program, such as 0,2 (or none)")
    parser.add_argument("--steps", type=numbers, help="only these steps of the schedule, such as 0,3 (or none)")
    parser.add_argument("--largest", type=int, default=LARGEST, help="no dimension is drawn larger than this")
    parser.add_argument("--most", type=int, default=5, help="stop after this many failures")
    options = parser.parse_args(argv)

    def recipe(seed: int) -> Recipe:
        whole = Recipe.of(seed)
        stages = whole.stages if options.stages is None else options.stages
        steps = whole.steps if options.steps is None else options.steps
        return Recipe(seed, stages, steps, options.largest)

    seeds = range(options.seed, options.seed + options.count) if options.count else itertools.count(options.seed)
    progress = Progress(options.count)
    totals: Counter[str] = Counter()
    pool = Pool(min(options.workers, options.count or options.workers))
    helper: Worker | None = None
    try:
        for given, result in pool.map(map(recipe, seeds)):
            progress.done += 1
            if isinstance(result, Mismatch):
                progress.failures += 1
                progress.clear()
                helper = helper or Worker()
                print(report(*smallest(helper.check, given, result)), end="\n\n", flush=True)
                if progress.failures >= options.most:
                    break
            else:
                totals.update(result)
            progress.show()
    except KeyboardInterrupt:
        pass
    progress.clear()
    pool.stop()
    if helper is not None:
        helper.stop()
    print(summary(totals), file=sys.stderr)
    print(progress.text(f"from seed {options.seed}"), file=sys.stderr)
    return int(progress.failures > 0)


def summary(totals: Counter[str]) -> str:
    """Counts by kind; of each primitive how often it applied and was refused."""
    lines, table = [], dict[str, list[int]]()
    for name, n in sorted(totals.items()):
        what, _, of = name.partition(": ")
        if what in ("applied", "refused") and " " not in of:
            table.setdefault(of, [0, 0])[what == "refused"] = n
        else:
            lines.append(f"{n:>9} {name}")
    lines.append(f"{'applied':>9} {'refused':>9} primitive")
    lines += [f"{yes:>9} {no:>9} {name}" for name, (yes, no) in sorted(table.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
