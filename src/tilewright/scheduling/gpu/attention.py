"""Attention in one kernel: the softmax is online, so that scores and weights of a step never leave registers.

for heads, m0 over blocks:
  Q_shared = Q[tile]
  for warps (or threads along y) of queries:
    for t over tiles of keys:                   a pipeline: cp.async of the next tiles
      K_shared = K[tile]; V_shared = V[tile]
      S = Q_shared * K_shared                   products; scale, mask
      F = exp(M - max(M, max S)); M = max(M, max S)
      W = exp(S - M)
      L = L * F + sum W;  O = O * F + W * V_shared
    out = epilogue(O / L)

attention_sums.tile     [queries of a block, of a warp, keys of a step]
attention_sums.parts    parts of the keys that are computed apart, where there are few queries; a second kernel combines them
attention_sums.stages   tiles of keys and values in shared memory
attention_sums.form     "warpgroups" or "warps": who multiplies, where there are products of warpgroups (sm_90a)

Who has what of a step on matrix units is in `attention_units.py`, on warpgroups in `attention_warpgroups.py`, without either in
`attention_registers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any, NamedTuple

from tilewright.scheduling.attention_stages import Stages, attention_stages
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.attention_registers import InRegisters
from tilewright.scheduling.gpu.attention_tiles import AttentionTile, on_matrix_units, shared_bytes
from tilewright.scheduling.gpu.attention_units import OnUnits
from tilewright.scheduling.gpu.attention_warpgroups import OnWarpgroups, suits_warpgroups
from tilewright.scheduling.gpu.facts import facts_of, mma_shape
from tilewright.scheduling.gpu.matrix_form import as_product, inline_epilogue, inline_into, product_of
from tilewright.scheduling.gpu.threads import one_loop
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.topi.stages import BLOCK_ROWS, CAUSAL, TILE_COLUMNS, TILE_ROWS

MOST_BLOCKS = 65535
"""Blocks along y and z."""
THREADS = 128
"""Threads of a block that combines parts, at most."""
Form = OnUnits | InRegisters
"""The steps of a schedule that depend on who has what."""


def schedule_attention(view: KernelView, target: Target) -> bool:
    """Schedules attention, with what reads its result element by element. Whether the kernel was one."""
    stages = attention_stages(view)
    if stages is None:
        return False
    notes = stages.sums.block.annotations
    tile = AttentionTile(*[int(notes[key]) for key in (BLOCK_ROWS, TILE_ROWS, TILE_COLUMNS)])
    dtype = str(stages.shares.block.writes[0].buffer.dtype)
    form = _form_of(view, stages, tile, dtype, target)
    _Kernel(view, stages, tile, form, _stages_of(view, stages, tile, form, target)).schedule()
    return True


def _form_of(view: KernelView, stages: Stages, tile: AttentionTile, dtype: str, target: Target) -> Form:
    """Who has what: warpgroups, warps on matrix units, or threads without these."""
    if suits_warpgroups(view, stages, tile, target):
        if view.plan.choose("attention_sums.form", "warpgroups", lambda: ("warpgroups", "warps")) == "warpgroups":
            return OnWarpgroups(view.sch, tile)
    if on_matrix_units(dtype, target):
        return OnUnits(view.sch, tile, mma_shape(target, dtype, "float32"))
    return InRegisters(view.sch, tile, "shared.dyn" if target.kind.name == "cuda" else "shared")


def _stages_of(view: KernelView, stages: Stages, tile: AttentionTile, form: Form, target: Target) -> int:
    """How many tiles of keys and values are in shared memory."""
    gpu = facts_of(target)
    if target.kind.name != "cuda" or not gpu.has_cp_async:
        return 1
    deep, wide = stages.products.extents[-1], stages.sums.extents[-2]
    element = int(stages.shares.block.writes[0].buffer.dtype.bytes)
    units = not isinstance(form, InRegisters)
    counts = (2, 3, 4) if isinstance(form, OnWarpgroups) else (1, 2, 3)
    most = gpu.shared_memory_per_block_optin
    fits = [n for n in counts if shared_bytes(tile, deep, wide, element, units, n) <= most] or [counts[0]]
    steps = stages.sums.extents[-1] // tile.keys
    model = max([n for n in fits if n <= min(2, steps)], default=fits[0])
    return view.plan.choose("attention_sums.stages", model, lambda: fits)


class _Nest(NamedTuple):
    """The loops of a stage: over heads, blocks of queries, warps, tiles of keys; then those inside of a tile."""

    heads: LoopRV
    blocks: LoopRV
    warps: LoopRV
    steps: LoopRV
    inside: list[LoopRV]


class _Kernel:
    """The kernel of all stages up to the sums of each part of the keys."""

    def __init__(self, view: KernelView, stages: Stages, tile: AttentionTile, form: Form, in_flight: int) -> None:
        self.view, self.sch, self.stages, self.tile = view, view.sch, stages, tile
        self.form, self.in_flight = form, in_flight

    def schedule(self) -> None:
        sch, view, stages = self.sch, self.view, self.stages
        last = _last_stage(view, stages)
        readers = [] if last is not None else _combine(view, stages)
        query, key = self._in_form(stages.products.rv, trans_b=True)
        shares, value = self._in_form(stages.sums.rv, trans_b=False)
        sch.compute_inline(shares)
        sums = self._nest(stages.sums.rv)
        of_rows = [self._of_rows(stages.top), self._of_rows(stages.total)]
        (_, tops), (total, totals) = of_rows
        self.form.stage_values(stages.sums.rv, value, sums.steps)
        narrowed = stages.weights.name != stages.shares.name
        if narrowed:
            sch.compute_at(stages.shares.rv, sums.steps)
        steps = sch.merge(total.steps, sums.steps)
        rows = [stages.top.rv, *tops, stages.total.rv, *totals]
        self.form.keep(
            rows, [stages.products.rv, stages.scores.rv, stages.weights.rv, stages.sums.rv], stages.shares.rv
        )
        for rv in totals:
            sch.compute_at(rv, steps)
        sch.compute_at(stages.weights.rv, steps)
        sch.merge(of_rows[0][0].warps, sch.get_loops(stages.sums.rv)[2])
        heads, blocks, warps, steps = sch.get_loops(stages.sums.rv)[:4]
        ends = [last] if last is not None else self._copied(readers)
        for end in ends:
            sch.reverse_compute_at(end, warps)
        wide = sch.get(heads).extent.value > MOST_BLOCKS
        sch.bind(heads, "blockIdx.x" if wide else "blockIdx.y")
        sch.bind(blocks, "blockIdx.y" if wide else "blockIdx.x")
        sch.bind(warps, "threadIdx.y")
        factor, *rescaled, top_start, total_start, sums_start = sch.online(sch.get_loops(stages.top.rv)[3], steps)
        self.form.keep([factor], [], stages.shares.rv)
        for rv in tops:
            sch.compute_at(rv, steps)
        for rv in (stages.scores.rv, stages.products.rv):
            sch.compute_at(rv, steps)
        self.form.stage_keys(stages.products.rv, query, key, blocks, warps, steps)
        self.form.read(stages.products.rv)
        self.form.rows(
            [stages.top.rv, *tops],
            [stages.total.rv, *totals],
            factor,
            [rescaled[0], top_start, total_start, *ends[:-1]],
        )
        self.form.elements(
            [stages.scores.rv, stages.weights.rv, stages.shares.rv], stages.sums.rv, sums_start, rescaled[1], ends[-1]
        )
        seen = self.stages.scores.block.annotations.get(CAUSAL)
        if seen is not None:
            # Keys behind those that the last row of a block sees.
            of_block, keys = self.tile.rows, self.tile.keys
            sch.unsafe_shorten(steps, [blocks], lambda i: ((i + 1) * of_block + int(seen) - 2) // keys + 1)
        self.form.run_ahead(steps, self.in_flight)
        if len(ends) == 1:
            # Last: rows that were added to fill tiles are cut off by a condition.
            inline_epilogue(sch, ends[0])

    def _copied(self, readers: Sequence[BlockRV]) -> list[BlockRV]:
        """Copies of what there is of a part of the keys, for another kernel."""
        sch, copies = self.sch, []
        for stage in (self.stages.top, self.stages.total, self.stages.sums):
            made: Any = sch.get(stage.rv)
            buffer = made.writes[0].buffer
            reading = [r for r in readers if any([x.buffer is buffer for x in sch.get(r).reads])]
            place = next(n for n, x in enumerate(sch.get(reading[0]).reads) if x.buffer is buffer)
            copies.append(sch.cache_read(reading[0], place, "global", [*reading]))
        return copies

    def _in_form(self, block: BlockRV, trans_b: bool) -> tuple[BlockRV, BlockRV]:
        """A stage as a product of batches of matrices. Returns the copies of its operands."""
        sch = self.sch
        made: Any = sch.get(block)
        product = product_of(made)
        assert product is not None
        staged = as_product(sch, block, product, trans_b=trans_b)
        sch.compute_inline(staged.result)
        inline_into(sch, staged.operands[1])
        if trans_b:
            inline_into(sch, staged.operands[0])
        return staged.operands

    def _nest(self, block: BlockRV) -> _Nest:
        """for heads: for rows: for e: for j  -->  heads, blocks, warps, tiles of keys, rows of a warp, e, keys of a tile"""
        sch, tile = self.sch, self.tile
        *lead, rows, columns = sch.get_loops(block)
        inner: list[LoopRV] = []
        if block is self.stages.sums.rv:
            *lead, rows, of_value, columns = sch.get_loops(block)
            inner = [of_value]
        heads = one_loop(self.view, BlockView(sch, block), lead) if lead else sch.add_unit_loop(rows)
        blocks, warps, row = sch.split(rows, [None, tile.rows // tile.of_warp, tile.of_warp])
        steps, column = sch.split(columns, [None, tile.keys])
        inside = [row, *inner, column]
        sch.reorder(heads, blocks, warps, steps, *inside)
        return _Nest(heads, blocks, warps, steps, inside)

    def _of_rows(self, stage: BlockView) -> tuple[_Nest, list[BlockRV]]:
        """A reduction of each row, in parts: of a tile of keys, and of what the form makes of a tile. Returns the loops of the stage, and
        the blocks of the parts, the last one first."""
        sch = self.sch
        nest = self._nest(stage.rv)
        parts = [sch.rfactor(nest.steps, 0)]
        parts += self.form.parts_of_row(parts[0])
        heads, blocks, warps, steps, *inside = sch.get_loops(stage.rv)
        return _Nest(heads, blocks, warps, steps, inside), parts


def _last_stage(view: KernelView, stages: Stages) -> BlockRV | None:
    """The stage of results; None where there are those of parts."""
    (reader,) = view.consumers(stages.total)
    return None if reader.reduction else reader.rv


def _combine(view: KernelView, stages: Stages) -> list[BlockRV]:
    """The kernel that combines parts of the keys: a thread for each element of the result, which finds the scale of the parts again.
    Returns the blocks that read what there is of a part."""
    sch = view.sch
    inside = {b.name for b in stages}
    found = [b for stage in (stages.top, stages.total, stages.sums) for b in view.consumers(stage)]
    names = {b.name for b in found} - inside
    between = [b for b in view.blocks() if b.name in names]
    (last,) = {b.name: b for r in between for b in view.consumers(r) if not b.reduction}.values()
    while len(readers := view.consumers(last)) == 1 and readers[0].is_injective:
        sch.compute_inline(last.rv)
        last = BlockView(sch, readers[0].rv)
    threads = gcd(prod(last.extents), THREADS)
    grid, thread = sch.split(one_loop(view, last, view.loops(last)), [None, threads])
    for block in reversed(between):
        sch.set_scope(block.rv, 0, "local")
        sch.compute_at(block.rv, thread)
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return [b.rv for b in between]


__all__ = ["schedule_attention"]
