"""Random programs in the functional simulator and in the reference: `python -m tests.vta.fuzz --count 1000 --seed 1`."""

from __future__ import annotations

import argparse
import random
import sys

from tests.vta.random_programs import Board, in_order, outcome, random_configuration, random_program, with_random_tokens


def _timed(seed: int) -> str:
    """The same program, whose order is fixed, cycle by cycle; what differs."""
    rng = random.Random(seed)
    config = random_configuration(rng)
    board = Board(config, rng, timed=True)
    program = in_order(random_program(board, *_size(rng)))
    expected, found = outcome(board.reference.run, program), outcome(board.native.run, program)
    if expected != found or (not expected and not board.same_memory()):
        return f"seed {seed} differs cycle by cycle: {expected or 'ends well'}; {found or 'ends well'}"
    stats = board.native.stats()
    for unit, times in stats["units"].items():
        if not expected and sum(times.values()) - times["nbytes"] != stats["cycle_count"]:
            return f"seed {seed} differs: the cycles of {unit} do not add up: {stats}"
    return ""


def _size(rng: random.Random) -> tuple[int, float]:
    """How many instructions, and how many of them are damaged."""
    faults = rng.choice([0.0, 0.0, 0.1])
    return rng.randint(1, 25), faults


def one(seed: int) -> str:
    """Runs a random program twice; what differs, or how it ended."""
    rng = random.Random(seed)
    board = Board(random_configuration(rng), rng)
    program = random_program(board, *_size(rng))
    ordered = rng.random() < 0.6
    program = in_order(program) if ordered else with_random_tokens(program, rng)
    expected, found = outcome(board.reference.run, program), outcome(board.native.run, program)
    if expected != found:
        return f"seed {seed} differs:\n  reference: {expected or 'ends well'}\n  simulator: {found or 'ends well'}"
    if not expected and not board.same_memory():
        return f"seed {seed} differs: the memory"
    if ordered:
        return _timed(seed) or expected.partition(":")[0] or "ends well"
    return expected.partition(":")[0] or "ends well"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    ends: dict[str, int] = {}
    for seed in range(given.seed, given.seed + given.count):
        end = one(seed)
        if "differs" in end:
            print(end)
            return 1
        ends[end] = ends.get(end, 0) + 1
    print(f"{given.count} programs from seed {given.seed}: {ends}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
