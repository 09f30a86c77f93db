"""Panels fetched ahead: while tiles of rows work on one panel of weights, the next one comes from memory.

parallel t in tiles, panel after panel:  for k: S(t, k)
-->
parallel t:  for k: prefetch B[t // tiles_of_a_panel + 1, what falls to (t, k)];  S(t, k)

Else the first tile of each panel waits for memory. Where how many tiles a panel has is not known, its first ones fetch the next
panel, as far as there are so many:

parallel t:  for r in rows: for k: if r < few: prefetch B[.., what falls to (t, r, k)];  S(t, r, k)

A panel may be several blocks of columns that lie one after the other (weights of convolutions), and the steps several loops:

parallel t:  for c, h, w, k: prefetch B[(t // tiles_of_a_panel + 1) * blocks, what falls to (t, c, h, w, k)];  S(t, c, h, w, k)

What an epilogue reads besides the sums (a residual) comes while the sums are made:

for k: S(t, k);  for i, j: C[i, j] = sums[i, j] + R[i, j]
-->
for i, j in lines: prefetch R[i, j];  for k: S(t, k);  for i, j: ..

Only hints are added, so that nothing depends on where they point.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir import IntImm, Op
from tilewright.node import on
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
from tilewright.tir.stmt_functor import BufferMutator, post_order_visit, renew_stmt, substitute
from tilewright.tir.transform.base import is_true
from tilewright.topi.schedule.kernel import extent_of

FETCH_AHEAD = "tilewright.fetch_ahead"
"""Loop annotation: the name of what is read in panels, how many iterations of the loop over tiles a panel has, and how many loops are
between that loop and this one: of rows, of unknown extents, and below them of the reduction."""
LINE, MOST_LINES = 64, 4
"""Bytes of a cache line, and how many to ask for in a step of the reduction. Panels of which more must come have too few rows of work:
memory bounds them, and they are read in order anyway."""
NEAREST, SECOND_CACHE = 3, 2
"""Caches to fetch into, as `prefetch` counts them."""
FETCH_EARLY = "tilewright.fetch_early"
"""Annotation of an epilogue, and of the loop of sums before which what it reads is to be fetched."""
ENOUGH_WORK = 1024
"""Multiply-adds of vectors of a tile that take as long as a line takes from memory."""


def mark_ahead(
    sch: Schedule, tiles: LoopRV, rows: int, steps: list[LoopRV], name: str, panels: int, times: int
) -> None:
    """Says that the panels of a tensor are to be fetched ahead, in a loop of as many tiles for each of `panels` panels, all of them that
    many `times`. `rows`: how many loops of unknown extents are directly below that one, around the loops of the steps."""
    count = sch.get(tiles).extent
    if isinstance(count, IntImm) and count.value % (panels * times) == 0 and panels > 1:
        sch.annotate(steps[-1], FETCH_AHEAD, [name, count.value // (panels * times), panels, rows, len(steps) - 1])


def mark_early(sch: Schedule, sums: LoopRV, work: int, epilogue: BlockRV) -> None:
    """Says that what an epilogue reads of tensors is to be fetched before the loop of sums, which does `work` multiply-adds of vectors."""
    if work >= ENOUGH_WORK and _tensors(sch.get(epilogue)):
        sch.annotate(epilogue, FETCH_EARLY, 1)
        sch.annotate(sums, FETCH_EARLY, 1)


def _tensors(block: Block) -> list[BufferRegion]:
    """What a block reads of tensors that are as large as the one it writes, and in memory."""
    written = block.writes[0].buffer
    least, open_extents = prod(_known(written)), len(written.shape) - len(_known(written))
    return [
        r
        for r in block.reads
        if r.buffer.scope() == "global"
        and prod(_known(r.buffer)) >= least > 1
        and len(r.buffer.shape) - len(_known(r.buffer)) >= open_extents
    ]


def _known(buffer: Buffer) -> list[int]:
    """The extents of a buffer that are constants."""
    return [d.value for d in buffer.shape if isinstance(d, IntImm)]


def fetch_ahead(func: PrimFunc) -> PrimFunc:
    """The scheduled kernel with hints in the loops that are marked."""
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
    """Hints for what an epilogue reads: its loops, with one round for each line of a vector."""
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
    """How many rounds of nested loops are over."""
    over: Any = 0
    for loop in loops:
        over = over * loop.extent + loop.loop_var
    return over


def _read(s: For, name: str) -> BufferRegion | None:
    """What the block below a loop reads of a tensor."""
    found: list[BufferRegion] = []

    def look(e: Any) -> None:
        if isinstance(e, BlockRealize):
            found.extend([r for r in e.block.reads if r.buffer.name == name])

    post_order_visit(s.body, look)
    return found[0] if found else None
