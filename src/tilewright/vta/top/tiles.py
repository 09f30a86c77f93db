"""Tiles of a product or a convolution for schedules without a record: those that the search finds (`vta.search`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.support.errors import TVMError
from tilewright.vta.configuration import Configuration
from tilewright.vta.search import best
from tilewright.vta.search import problem as search
from tilewright.vta.search.best import divisors
from tilewright.vta.search.lacking import no_tile_fits


class Problem(NamedTuple):
    """A convolution in elements of the accelerator: blocks of batch, of output channels, of input channels; rows and columns of the result;
    kernel and strides; columns of the padded input. extra: accumulators beside those of the result, for each of them; constants: the same,
    for each output block; widened: inputs that become accumulators as they are, for each of the result. source: rows and columns of the
    array in DRAM, if it is not the padded input; padding before it; step: between the rows and columns that are copied. per_group: output
    blocks of a group, each of which has in_blocks of its own; 0: there is one group. pool, pool_strides: windows of sums of which the
    largest ones are the results, whose rows and columns these are then; (1, 1): none. passes, copied: those of `search.problem.Problem`, of
    arrays that have an accumulator for each sum."""

    batch: int
    out_blocks: int
    in_blocks: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    width: int
    extra: int = 0
    constants: int = 0
    widened: int = 0
    source: tuple[int, int] | None = None
    padding: tuple[int, int] = (0, 0)
    step: int = 1
    per_group: int = 0
    pool: tuple[int, int] = (1, 1)
    pool_strides: tuple[int, int] = (1, 1)
    passes: tuple[int, ...] = (1, 1)
    copied: int = 0

    def groups(self, out_blocks: int) -> int:
        """The most groups that so many output blocks are of, from a multiple of so many on."""
        return search.groups_of(out_blocks, self.per_group)


class Tiles(NamedTuple):
    """Rows, output blocks and input blocks of a tile; virtual threads over output blocks, and over rows; columns, 0 for all. by_offset:
    whether weights are copied for each kernel offset alone. rows_outer: whether the loops over tiles of rows and columns are outside of
    that over output blocks."""

    rows: int
    out_blocks: int
    in_blocks: int
    out_threads: int = 1
    row_threads: int = 1
    columns: int = 0
    by_offset: bool = False
    rows_outer: bool = False

    def uses(self, p: Problem) -> dict[str, int]:
        """Elements of each memory."""
        threads = self.out_threads * self.row_threads
        offsets = 1 if self.by_offset else p.kernel[0] * p.kernel[1]
        rows, columns = (
            (n - 1) * step + window
            for n, step, window in zip((self.rows, self.columns or p.columns), p.pool_strides, p.pool, strict=True)
        )
        height = (rows - 1) * p.strides[0] + p.kernel[0]
        width = (columns - 1) * p.strides[1] + p.kernel[1] if self.columns else p.width
        sums = self.out_blocks * rows * columns
        pooled = self.out_blocks * self.rows * (self.columns or p.columns) if p.pool != (1, 1) else 0
        return {
            "inp": threads * (p.groups(self.out_blocks) * self.in_blocks * height * width + sums * p.widened),
            # Where inputs are widened, an element is kept for the identity.
            "wgt": threads * self.out_blocks * self.in_blocks * offsets + (p.widened > 0),
            "acc": threads * (sums * (1 + p.extra) + pooled + self.out_blocks * p.constants),
        }


def fits(p: Problem, t: Tiles, config: Configuration) -> bool:
    """Whether tiles fit into the memories."""
    return all([n <= config.depth(m) for m, n in t.uses(p).items()])


def inner_blocks(p: Problem, t: Tiles, config: Configuration) -> int | None:
    """The most input blocks of a product in tiles of another one of the kernel that fit; None where none do."""
    return next((k for k in reversed(divisors(p.in_blocks)) if fits(p, t._replace(in_blocks=k), config)), None)


def choose(p: Problem, config: Configuration, others: Sequence[Problem] = ()) -> Tiles:
    """The tiles of the least estimated time, in which what else the kernel has fits, too: inputs that become accumulators, and other
    products. TVMError where none do: which memory lacks how much."""
    padded = ((p.rows - 1) * p.pool_strides[0] + p.pool[0] - 1) * p.strides[0] + p.kernel[0], p.width
    strides = (p.step, p.step) if p.step > 1 else p.strides
    layer = search.Problem(
        p.batch, p.out_blocks, p.in_blocks, p.rows, p.columns, p.kernel, strides, p.source or padded, p.padding, p.step > 1,
        passes=p.passes, copied=(True,) * p.copied + (False,) * p.constants, extra=max(p.extra - p.copied, 0), per_group=p.per_group,
        pool=p.pool, pool_strides=p.pool_strides,
    )  # fmt: skip
    for by_offset in (False, True):
        for columns in (False, True):
            found = _fitting(p, layer, config, others, best.Freedom(columns=columns), by_offset)
            if found is not None:
                return found
    raise TVMError(_lacking((p, *others), config))


_LEAST = Tiles(1, 1, 1, columns=1, by_offset=True)


def _fitting(
    p: Problem,
    layer: search.Problem,
    config: Configuration,
    others: Sequence[Problem],
    freedom: best.Freedom,
    by_offset: bool,
) -> Tiles | None:
    """The tiles in which all of a kernel fits; None where none do."""
    least = Tiles(1, 1, 1, columns=1 if freedom.columns else 0, by_offset=by_offset)
    # The search knows of the one product, with all its kernel offsets; where its tiles are too large, it gets less of each memory.
    limits = replace(config, wgt_buff_size=config.wgt_buff_size * layer.offsets) if by_offset else config
    while all([fits(q, least, config) for q in (p, *others)]):
        t = best.choose(layer, limits, freedom).tiling
        columns = 0 if t.columns == p.columns else t.columns
        found = Tiles(
            t.rows, t.out_blocks, t.in_blocks, t.out_threads, t.row_threads, columns, by_offset, t.spatial_outer
        )
        if fits(p, found, config) and all([inner_blocks(other, found, config) is not None for other in others]):
            return found
        smaller = _less(limits, layer, freedom)
        if smaller == limits:
            return None
        limits = smaller
    return None


def _less(limits: Configuration, layer: search.Problem, freedom: best.Freedom) -> Configuration:
    """Three quarters of each memory, but as much as the smallest tile needs."""
    needed = search.Tiling(1, 1 if freedom.columns else layer.columns, 1, 1).uses(layer)
    sizes = {}
    for memory, least in needed.items():
        depth = max(limits.depth(memory) * 3 // 4, least)
        sizes[f"{memory}_buff_size"] = depth * limits.element_bytes(memory)
    return replace(limits, **sizes)  # type: ignore[arg-type]


def _lacking(problems: Sequence[Problem], config: Configuration) -> str:
    needs = [_LEAST.uses(q) for q in problems]
    least = {m: max([n[m] for n in needs]) for m in needs[0]}
    return no_tile_fits(least, config)


__all__ = ["Problem", "Tiles", "choose", "fits", "inner_blocks"]
