"""Software prefetch of weight panels: while tiles of rows work on one panel, the next one is fetched from memory.

parallel t in tiles, panel after panel:  for k: S(t, k)
-->
parallel t:  for k: prefetch B[t // tiles_of_a_panel + 1, the part for (t, k)];  S(t, k)

Otherwise the first tile of each panel waits for memory. If the number of tiles per panel is not known, the first tiles
fetch the next panel:

parallel t:  for r in rows: for k: if r < few: prefetch B[.., the part for (t, r, k)];  S(t, r, k)

A panel can be several consecutive blocks of columns (weights of convolutions), and the steps can be several loops:

parallel t:  for c, h, w, k: prefetch B[(t // tiles_of_a_panel + 1) * blocks, the part for (t, c, h, w, k)];  S(t, c, h,
w, k)

The data that an epilogue reads besides the sums (a residual) is fetched during the reduction:

for k: S(t, k);  for i, j: C[i, j] = sums[i, j] + R[i, j]
-->
for i, j in lines: prefetch R[i, j];  for k: S(t, k);  for i, j: ..

Prefetches are only hints: results do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir import IntImm, Op
from tilewright.node import on
from tilewright.scheduling.cpu.kernel import extent_of
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    const,
)
from tilewright.tir.op import min as min_value
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.stmt_functor import post_order_visit, renew_stmt, substitute
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import is_true

FETCH_AHEAD = "tilewright.fetch_ahead"
"""Loop annotation: the name of the tensor of panels, the iterations of the loop over tiles per panel, and the number of
loops between that loop and this one: loops over rows, loops of dynamic extents, and below them loops of the reduction.
"""
LINE, MOST_LINES = 64, 4
"""Bytes of a cache line, and the largest number of lines to fetch in a step of the reduction. Panels that need more
have too few rows of work: they are bound by memory, and are read in order anyway.
"""
NEAREST, SECOND_CACHE = 3, 2
"""The cache levels to fetch into, as `prefetch` numbers them."""
FETCH_EARLY = "tilewright.fetch_early"
"""Annotation of an epilogue, and of the reduction loop before which the epilogue's data is fetched."""
ENOUGH_WORK = 1024
"""The multiply-adds on vectors of a tile that take as long as fetching a cache line from memory."""


def mark_ahead(
    sch: Schedule, tiles: LoopRV, rows: int, steps: list[LoopRV], name: str, panels: int, times: int
) -> None:
    """Mark a loop over tiles for software prefetch of a tensor's panels. The loop has the tiles of each of `panels`
    panels, and runs all of them so many `times`.

    `rows`: the number of loops of dynamic extent directly below it, around the loops of the steps.
    """
    count = sch.get(tiles).extent
    if isinstance(count, IntImm) and count.value % (panels * times) == 0 and panels > 1:
        sch.annotate(steps[-1], FETCH_AHEAD, [name, count.value // (panels * times), panels, rows, len(steps) - 1])


def mark_early(sch: Schedule, sums: LoopRV, work: int, epilogue: BlockRV) -> None:
    """Mark what an epilogue reads of tensors for prefetch before the reduction loop, which does `work` multiply-adds on
    vectors.
    """
    if work >= ENOUGH_WORK and _tensors(sch.get(epilogue)):
        sch.annotate(epilogue, FETCH_EARLY, 1)
        sch.annotate(sums, FETCH_EARLY, 1)


def _tensors(block: Block) -> list[BufferRegion]:
    """The reads of a block from tensors in memory that are as large as its output."""
    written = block.writes[0].buffer
    least, dynamic_extents = prod(_known(written)), len(written.shape) - len(_known(written))
    return [
        r
        for r in block.reads
        if r.buffer.scope() == "global"
        and prod(_known(r.buffer)) >= least > 1
        and len(r.buffer.shape) - len(_known(r.buffer)) >= dynamic_extents
    ]


def _known(buffer: Buffer) -> list[int]:
    """The constant extents of a buffer."""
    return [d.value for d in buffer.shape if isinstance(d, IntImm)]


def fetch_ahead(func: PrimFunc) -> PrimFunc:
    """Insert the hints in the marked loops of a scheduled kernel."""
    marked: list[Any] = []
    post_order_visit(
        func.body,
        lambda s: marked.append(s) if isinstance(s, For) and {FETCH_AHEAD, FETCH_EARLY} & set(s.annotations) else None,
    )
    return func.replace(body=_FetchAhead().visit(func.body)) if marked else func


class _FetchAhead(BufferMutator):
    def __init__(self) -> None:
        super().__init__()
        self.around: list[For] = []

    @on(For)
    def _for(self, s: For) -> For:
        self.around.append(s)
        body = self.visit(s.body)
        self.around.pop()
        if FETCH_AHEAD not in s.annotations:
            return s if body is s.body else s.replace(body=body)
        name, *numbers = s.annotations[FETCH_AHEAD]
        hints = self._hints(s, str(name), *[int(n) for n in numbers])
        kept = {k: v for k, v in s.annotations.items() if k not in (FETCH_AHEAD, FETCH_EARLY)}
        return s.replace(body=SeqStmt((*hints, body)) if hints else body, annotations=kept)

    @on(SeqStmt)
    def _sequence(self, s: SeqStmt) -> Stmt:
        found: list[Stmt] = []
        for i, step in enumerate(s.seq):
            if isinstance(step, For) and FETCH_EARLY in step.annotations:
                found += [line for later in s.seq[i + 1 :] for line in _lines(later)]
            found.append(self.visit(step))
        return SeqStmt(tuple(found))

    @on(Block)
    def _block(self, block: Block) -> Block:
        kept = {k: v for k, v in block.annotations.items() if k != FETCH_EARLY}
        new: Block = self.rebuild(block)
        return new if len(kept) == len(block.annotations) else new.replace(annotations=kept)

    def _hints(self, s: For, name: str, parts: int, panels: int, rows: int, reduced: int) -> list[Stmt]:
        read = _read(s, name)
        if read is None or len(self.around) <= rows + reduced:
            return []
        tiles, *between = self.around[len(self.around) - rows - reduced - 1 :]
        loops = [*between[rows:], s]
        shape = _known(read.buffer)
        extents = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
        if len(shape) != len(read.buffer.shape) or len(extents) != len(loops) or shape[0] % panels:
            return []
        blocks = shape[0] // panels
        panel, count = blocks * prod(shape[1:]), prod(extents)
        steps = parts * count
        in_line = LINE // read.buffer.dtype.bytes
        # As many tiles of rows as it takes, or the only one.
        enough = -(-panel // (steps * in_line * MOST_LINES)) if rows else 1
        step = -(-panel // (steps * enough))
        lines = -(-step // in_line)
        if lines > MOST_LINES:
            return []
        row, at_step = _count(between[:rows]), _count(loops)
        tile: Any = tiles.loop_var
        begin = ((tile % parts * enough + row) * count + at_step) * step
        panel_now = tile // parts if extent_of(tiles) == parts * panels else tile // parts % panels
        next_panel = min_value(panel_now + 1, panels - 1)
        hints: list[Stmt] = []
        for k in range(lines):
            at, indices = begin + k * in_line, []
            for d in reversed(shape[2:]):
                indices.append(at % d)
                at = at // d
            if blocks > 1:
                indices.append(at % shape[1])
                first = next_panel * blocks + min_value(at // shape[1], blocks - 1)
            else:
                indices.append(min_value(at, shape[1] - 1))
                first = next_panel
            hints.append(_prefetch(read.buffer, (first, *reversed(indices)), NEAREST))
        return [IfThenElse(row < enough, SeqStmt(tuple(hints)), None)] if rows else hints


def _lines(s: Stmt) -> list[Stmt]:
    """Hints for the reads of an epilogue: its loops, with one iteration for each cache line of a vector."""
    if isinstance(s, BlockRealize):
        return _line_hints(s) if FETCH_EARLY in s.block.annotations else []
    if not isinstance(s, For):
        return []
    inner = _lines(s.body)
    if not inner:
        return []
    body = inner[0] if len(inner) == 1 else SeqStmt(tuple(inner))
    if s.kind is not ForKind.VECTORIZED or not isinstance(s.body, BlockRealize):
        return [renew_stmt(s.replace(body=body, annotations={}))]
    step = LINE // s.body.block.writes[0].buffer.dtype.bytes
    return [substitute(body, {s.loop_var: const(first, s.loop_var.dtype)}) for first in range(0, extent_of(s), step)]


def _line_hints(realize: BlockRealize) -> list[Stmt]:
    values = dict(zip([v.var for v in realize.block.iter_vars], realize.iter_values, strict=True))
    found: list[Stmt] = []
    for read in _tensors(realize.block):
        first = [substitute(r.min, values) for r in read.region]
        if not is_true(realize.predicate):
            first = [min_value(i, d - 1) for i, d in zip(first, read.buffer.shape, strict=True)]
        found.append(_prefetch(read.buffer, first, SECOND_CACHE))
    return found


def _prefetch(buffer: Buffer, indices: Sequence[Any], cache: int) -> Stmt:
    address = Call("handle", Op.get("tir.address_of"), (BufferLoad(buffer, tuple(indices)),))
    return Evaluate(Call("handle", Op.get("tir.prefetch"), (address, 0, cache, 1)))


def _count(loops: list[For]) -> Any:
    """The number of finished iterations of nested loops."""
    over: Any = 0
    for loop in loops:
        over = over * loop.extent + loop.loop_var
    return over


def _read(s: For, name: str) -> BufferRegion | None:
    """The read of a tensor by the block below a loop."""
    found: list[BufferRegion] = []

    def look(e: Any) -> None:
        if isinstance(e, BlockRealize):
            found.extend([r for r in e.block.reads if r.buffer.name == name])

    post_order_visit(s.body, look)
    return found[0] if found else None
