"""Schedules of kernels of models, whatever operators are in them: a convolution with what follows it, or arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tilewright import te
from tilewright.support.errors import TVMError
from tilewright.te.primfunc import post_order
from tilewright.topi.utils import shape_of
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import get_env
from tilewright.vta.search.best import divisors
from tilewright.vta.search.lacking import no_tile_fits
from tilewright.vta.top.packed import PackedStages
from tilewright.vta.top.tiles import Tiles, choose, inner_blocks
from tilewright.vta.top.vta_conv2d import TAG, problem_of, tiled, tiled_conv2d


def schedule_kernel(outputs: Sequence[te.Tensor]) -> te.Schedule:
    """The schedule of a kernel on packed data for the current environment. TVMError where no tile fits, with what is missing."""
    env = get_env()
    has_product = any([isinstance(op, te.ComputeOp) and op.tag == TAG for op in post_order([t.op for t in outputs])])
    stages = PackedStages(outputs, TAG if has_product else "", env)
    if has_product:
        problems = [problem_of(stages, anchor) for anchor in stages.anchors]
        main = max(problems, key=lambda p: p.in_blocks * p.kernel[0] * p.kernel[1])
        tiles = choose(main, env.configuration, [p for p in problems if p is not main])
        inner = [tiles.in_blocks if p is main else inner_blocks(p, tiles, env.configuration) or 1 for p in problems]
        return tiled_conv2d(stages, tiles, inner)
    stages.compute_inside(tiled(stages, choose_alone(stages, env.configuration)))
    return stages.schedule


def choose_alone(stages: PackedStages, config: Configuration) -> Tiles:
    """The largest tiles of a kernel without a product that fit, preferably twice for two virtual threads. TVMError where none does: which
    memory lacks how much."""
    _, blocks, rows, columns, *_ = shape_of(stages.last)
    for widths in ([columns], divisors(columns)):
        best: tuple[tuple[int, int, float], Tiles] | None = None
        for y, o, x, (by_out, by_row) in product(divisors(rows), divisors(blocks), widths, ((1, 2), (2, 1), (1, 1))):
            threads = by_out * by_row
            if rows // y % by_row or blocks // o % by_out:
                continue
            uses = stages.uses(y, x, o)
            if any([threads * n > config.depth(m) for m, n in uses.items()]):
                continue
            # Of tiles of one size, those whose windows overlap least.
            worth = y * o * x * threads, threads, -sum(uses.values()) / (y * o * x)
            if best is None or worth > best[0]:
                best = worth, Tiles(y, o, 1, by_out, by_row, 0 if x == columns else x)
        if best is not None:
            return best[1]
    raise TVMError(no_tile_fits(stages.uses(1, 1, 1), config))


__all__ = ["choose_alone", "schedule_kernel"]
