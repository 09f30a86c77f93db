"""Attention in blocks of queries. Each block goes through all stages, from products with keys to weighted sums of
values.

for b, n, e: out = ..
-->
parallel b, blocks of rows:
  for panels of keys: for tiles of rows: a register tile of products; scaled and masked, they are scores
  for rows: the largest score, weights, their total
  for panels of values: for tiles of rows: a register tile of sums, all keys around it; divided by the totals, they are results
"""

from __future__ import annotations

from tilewright.scheduling.attention_stages import Stages
from tilewright.scheduling.block_views import KernelView, divisor_of
from tilewright.scheduling.cost import divisors, unroll_factor
from tilewright.scheduling.cpu.epilogue import attach_epilogue, vectorize_tile
from tilewright.scheduling.cpu.injective import schedule_injective
from tilewright.scheduling.cpu.rows import spread_over_lanes, unroll_fold, vectorize_last, vectorize_partial
from tilewright.scheduling.cpu.sharing import parallelize
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.topi.stages import BLOCK_ROWS, TILE_COLUMNS, TILE_ROWS


def in_blocks(stages: Stages) -> bool:
    """Whether the stages are those that the rule knows: with loops over the elements of queries, which single ones have not, and with
    weights of the type of values."""
    return stages.products.extents[-1] > 1 and stages.shares.name == stages.weights.name


def schedule_attention(view: KernelView, stages: Stages, target: Target) -> None:
    """Schedule all stages of attention, and the element-wise operators after it."""
    sch, sums = view.sch, stages.sums
    (means,) = view.consumers(stages.total)
    lanes = target.cpu.lanes(sums.block.writes[0].buffer.dtype.bits)
    schedule_injective(view, stages.keys, target)
    tops, totals = (spread_over_lanes(view, stage, target, masked=False) for stage in (stages.top, stages.total))

    *lead, rows, columns, keys = sch.get_loops(sums.rv)
    block, row = sch.split(rows, [None, int(sums.block.annotations[BLOCK_ROWS])], disable_predication=True)
    tile, row = sch.split(row, [None, int(sums.block.annotations[TILE_ROWS])], disable_predication=True)
    panel, vector, lane = sch.split(columns, [None, int(sums.block.annotations[TILE_COLUMNS]), lanes])
    sch.reorder(*lead, block, panel, tile, keys, row, vector, lane)
    readers = attach_epilogue(view, sums, tile)
    (last,) = view.consumers(means)
    # Refused where it reads other elements than those of one tile (a transposition): the means are in memory.
    with sch.tried(f"{last.name} tile by tile, on means in registers") as step:
        sch.reverse_compute_at(last.rv, tile)
    if step.refused:
        schedule_injective(view, last, target)
    else:
        sch.set_scope(means.rv, 0, "local")
        readers.append(last.rv)
    for reader in readers:
        vectorize_tile(sch, reader, tile, lanes)
    _in_registers(view, sums.rv, keys, row, vector, lane)

    # From the last stage to the first into the loop over blocks, then those that go row by row together.
    weights = stages.weights.rv
    before, after = [*[rv for rv, _ in tops], stages.top.rv], [*[rv for rv, _ in totals], stages.total.rv]
    for rv in (*reversed(after), weights):
        sch.compute_at(rv, block)
    each = sch.get_loops(weights)[len(lead) + 1]
    for rv in reversed(before):
        sch.compute_at(rv, each)
    for rv in after:
        sch.reverse_compute_at(rv, each)
    for stage, parts in ((stages.top, tops), (stages.total, totals)):
        if parts:
            unroll_fold(view, stage, target)
        for rv, width in parts:
            vectorize_partial(view, rv, target, width, each)
    vectorize_last(view, weights, target, each, [])

    products, scores = stages.products, stages.scores.rv
    sch.compute_at(scores, block)
    rows, columns = sch.get_loops(scores)[len(lead) + 1 :]
    height = int(products.block.annotations[TILE_ROWS])
    tile, row = sch.split(rows, [None, height], disable_predication=True)
    panel, columns = sch.split(columns, [None, int(products.block.annotations[TILE_COLUMNS]) * lanes])
    sch.reorder(panel, tile, row, columns)
    sch.compute_at(products.rv, tile, preserve_unit_loops=height == 1)
    sch.set_scope(products.rv, 0, "local")
    row, columns, inner = sch.get_loops(products.rv)[-3:]
    vector, lane = sch.split(columns, [None, lanes])
    sch.reorder(inner, row, vector, lane)
    _in_registers(view, products.rv, inner, row, vector, lane)
    vectorize_tile(sch, scores, tile, lanes)
    parallelize(view, sums.name, [sch.fuse(*lead, block)], sums.iterations, target)


def _in_registers(
    view: KernelView, block: BlockRV, reduced: LoopRV, rows: LoopRV, vectors: LoopRV, lanes: LoopRV
) -> None:
    """Make the innermost loops a register tile: some steps of the reduction, rows and vectors are unrolled, and the
    initialisation precedes the reduction.
    """
    sch = view.sch
    work = divisor_of(sch.get(rows).extent) * divisor_of(sch.get(vectors).extent)
    extent = divisor_of(sch.get(reduced).extent)
    model = unroll_factor(extent, work, view.plan.target.cpu.core.long_body)
    steps = view.plan.choose(f"{sch.get(block).name_hint}.unroll", model, lambda: divisors(extent, 16))
    outer, inner = sch.split(reduced, [None, steps], disable_predication=True)
    *_, first_rows, first_vectors, first_lanes = sch.get_loops(sch.decompose_reduction(block, outer))
    for loop in (inner, rows, vectors, first_rows, first_vectors):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.vectorize(first_lanes)
