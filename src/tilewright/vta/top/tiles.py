"""Tiles of a product or a convolution that fit into the memories, and an estimate of their time, for schedules without a record.

The time of a tile is the larger of its computation and its loads where virtual threads overlap them, else their sum
(docs/vta_timing.md)."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from tilewright.support.errors import TVMError
from tilewright.vta.configuration import Configuration


class Problem(NamedTuple):
    """A convolution in elements of the accelerator: blocks of batch, of output channels, of input channels; rows and columns of the result;
    kernel and strides; columns of the padded input. extra: accumulators beside those of the result, for each of them."""

    batch: int
    out_blocks: int
    in_blocks: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    width: int
    extra: int = 0


class Tiles(NamedTuple):
    """Rows, output blocks and input blocks of a tile; virtual threads over output blocks, and over rows."""

    rows: int
    out_blocks: int
    in_blocks: int
    out_threads: int = 1
    row_threads: int = 1

    def uses(self, p: Problem) -> dict[str, int]:
        """Elements of each memory."""
        threads = self.out_threads * self.row_threads
        taps = p.kernel[0] * p.kernel[1]
        height = (self.rows - 1) * p.strides[0] + p.kernel[0]
        return {
            "inp": threads * self.in_blocks * height * p.width,
            "wgt": threads * self.out_blocks * self.in_blocks * taps,
            "acc": threads * self.out_blocks * self.rows * p.columns * (1 + p.extra),
        }


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def candidates(p: Problem) -> list[Tiles]:
    """All tiles that divide the extents; threads divide what is left."""
    found = []
    for rows, out, inner in product(_divisors(p.rows), _divisors(p.out_blocks), _divisors(p.in_blocks)):
        found.append(Tiles(rows, out, inner))
        if p.out_blocks // out % 2 == 0:
            found.append(Tiles(rows, out, inner, out_threads=2))
        if p.rows // rows % 2 == 0:
            found.append(Tiles(rows, out, inner, row_threads=2))
    return found


def estimate(p: Problem, t: Tiles, config: Configuration) -> float:
    """Cycles of the whole problem."""
    taps = p.kernel[0] * p.kernel[1]
    uses = t._replace(out_threads=1, row_threads=1).uses(p)
    steps = t.out_blocks * t.rows * p.columns * taps * t.in_blocks
    moved = sum([uses[m] * config.element_bytes(m) for m in ("inp", "wgt")])
    load = moved / config.dram_bytes + 2 * config.dram_latency
    parts = p.in_blocks // t.in_blocks
    # Reset, a few operations of the ALU, and the store.
    rest = uses["acc"] * 5 + uses["acc"] * config.element_bytes("out") / config.dram_bytes + config.dram_latency
    both = max(steps, load) if t.out_threads * t.row_threads > 1 else steps + load
    tiles = p.batch * (p.rows // t.rows) * (p.out_blocks // t.out_blocks)
    return tiles * (parts * both + rest)


def choose(p: Problem, config: Configuration) -> Tiles:
    """The tiles of the least estimated time among those that fit. TVMError where none do: which memory lacks how much."""
    fitting = [t for t in candidates(p) if all([n <= config.depth(m) for m, n in t.uses(p).items()])]
    if fitting:
        return min(fitting, key=lambda t: estimate(p, t, config))
    least = Tiles(1, 1, 1).uses(p)
    lacking = [
        f"{n * config.element_bytes(m)} bytes of {m}, which has {config.depth(m) * config.element_bytes(m)}"
        for m, n in least.items()
        if n > config.depth(m)
    ]
    raise TVMError(f"no tile fits into the accelerator: one row of one block needs {' and '.join(lacking)}")


__all__ = ["Problem", "Tiles", "candidates", "choose", "estimate"]
