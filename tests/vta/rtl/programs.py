"""Random programs on random accelerators, in the hardware beside the simulators: `python -m tests.vta.rtl.programs --count 20`.

Memory must be equal to the bit after each program, and cycles within 3 %, or 12 cycles, of those of the cycle-level simulator."""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

from tests.vta.random_programs import Board, in_order, outcome, random_configuration, random_program
from tilewright.vta.hardware.simulation import Hardware


def near(hardware: int, simulator: int) -> bool:
    """Whether cycles of a program in the hardware are those of the simulator, but for what the hardware may differ by."""
    return abs(hardware - simulator) <= max(12, 0.03 * simulator)


def one(seed: int, length: int = 12, **fixed: Any) -> tuple[int, int] | None:
    """Cycles of a random program in the hardware and in the cycle-level simulator; None where the program is refused. AssertionError where
    their memory differs."""
    rng = random.Random(seed)
    narrow = {
        "BATCH": rng.choice([1, 1, 2]),
        "BLOCK_IN": rng.choice([1, 2, 4, 5]),
        "BLOCK_OUT": rng.choice([1, 2, 4, 7]),
    }
    config = random_configuration(
        rng, COMMAND_QUEUE=rng.choice([2, 8]), TOKEN_QUEUE=rng.choice([1, 4]), **{**narrow, **fixed}
    )
    board = Board(config, rng, timed=True)
    program = in_order(random_program(board, length))
    before = {a: bytearray(b) for a, b in board.reference.dram.blocks.items()}
    if outcome(board.native.run, program):
        return None
    hardware = Hardware(config)
    hardware.dram.blocks = before
    hardware.run(program)
    for address, block in before.items():
        assert board.native.read(address, len(block)) == bytes(block), (
            f"seed {seed}: memory at {address:#x} differs, of {config}"
        )
    return hardware.cycles, int(board.native.stats()["cycle_count"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    if given.count < 1:
        options.error(f"--count is {given.count}; it must be at least 1")
    found = []
    for seed in range(given.seed, given.seed + given.count):
        times = one(seed)
        if times is not None:
            found.append((times[0] / times[1] - 1, seed, *times))
    if not found:
        options.error(f"all {given.count} programs from seed {given.seed} are refused; take a larger --count")
    errors = sorted([abs(e) for e, *_ in found])
    worst = max(found, key=lambda f: abs(f[0]))
    print(
        f"{len(found)} programs from seed {given.seed}: equal; cycles differ by {sum(errors) / len(errors):.2%} on average, {worst[0]:.2%}"
        f" at most (seed {worst[1]}: {worst[2]} and {worst[3]})"
    )
    far = [seed for _, seed, hardware, simulator in found if not near(hardware, simulator)]
    if far:
        print(f"cycles are not near those of the simulator: seeds {', '.join(map(str, far))}")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
