"""InjectSoftwarePrefetch: prefetches data some steps before it is read, for annotated loops and blocks.

A loop over steps of a reduction, annotated with PANELS, prefetches the next panel of a tensor while tiles work on one:

parallel t in tiles, panel after panel:  for k: S(t, k)
-->
parallel t:  for k: prefetch B[t // tiles_of_a_panel + 1, the part for (t, k)];  S(t, k)

If the number of tiles per panel is not known, the first tiles prefetch the next panel:

parallel t:  for r in rows: for k: if r < few: prefetch B[.., the part for (t, r, k)];  S(t, r, k)

A panel can be several consecutive blocks of columns (weights of convolutions), and the steps can be several loops:

parallel t:  for c, h, w, k: prefetch B[(t // tiles_of_a_panel + 1) * blocks, the part for (t, c, h, w, k)];  S(t, c, h,
w, k)

For a block annotated with EARLY, a loop annotated with it first prefetches the tensors that the block reads:

for k: S(t, k);  for i, j: C[i, j] = sums[i, j] + R[i, j]
-->
for i, j in lines: prefetch R[i, j];  for k: S(t, k);  for i, j: ..

A loop annotated with NEXT, over the vectors of a row, prefetches what the next row reads of a tensor:

for r: for j: S(r, j)
-->
for r: for j: prefetch A[min(r + 1, rows - 1), the lines of j];  S(r, j)

Prefetches are only hints: results do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir import IntImm, Op
from tilewright.ir.transform import Pass
from tilewright.node import on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import const
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, StringImm
from tilewright.tir.op import min as min_value
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
)
from tilewright.tir.stmt_functor import any_stmt, post_order_visit, renew_stmt, substitute
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass, is_true

PANELS = "software_prefetch_panels"
"""Loop annotation: the name of the tensor of panels, the iterations of the loop over tiles per panel, the number of
panels, and the number of loops between that loop and this one: loops over rows, loops of dynamic extents, and below
them loops of the reduction.
"""
EARLY = "software_prefetch"
"""Annotation of a block that reads much data, and of the loop before which this data is prefetched."""
NEXT = "software_prefetch_next"
"""Loop annotation: the name of a tensor, and the number of loops between the loop over rows and this one."""
LINE, MOST_LINES = 64, 4
"""Bytes of a cache line, and the largest number of lines to fetch in a step of the reduction. Panels that need more
have too few rows of work: they are bound by memory, and are read in order anyway.
"""
NEAREST, SECOND_CACHE = 3, 2
"""The cache levels to fetch into, as `prefetch` numbers them."""


def InjectSoftwarePrefetch() -> Pass:
    """Insert prefetches of the data that loops and blocks annotated "software_prefetch_panels", "software_prefetch_next" and
    "software_prefetch" read later."""
    return body_pass("InjectSoftwarePrefetch", lambda func: with_hints(func.body))


def with_hints(body: Stmt) -> Stmt:
    """The program with hints in the annotated loops, without the annotations."""
    return _Hints().visit(body) if any_stmt(body, _is_marked) else body


def _is_marked(s: Stmt) -> bool:
    """Whether a loop or block is annotated."""
    return isinstance(s, (For, Block)) and any([mark in s.annotations for mark in (PANELS, EARLY, NEXT)])


def tensors_of(block: Block) -> list[BufferRegion]:
    """The reads of a block that are worth prefetching: tensors in memory that are as large as its output."""
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


def _extent(loop: For) -> int | None:
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


class _Hints(BufferMutator):
    def __init__(self) -> None:
        super().__init__()
        self.around: list[For] = []

    @on(For)
    def _for(self, s: For) -> For:
        self.around.append(s)
        body = self.visit(s.body)
        self.around.pop()
        marks = s.annotations.keys() & {PANELS, EARLY, NEXT}
        if not marks:
            return s if body is s.body else s.replace(body=body)
        hints = [*(self._panel(s) if PANELS in marks else []), *(self._next_row(s) if NEXT in marks else [])]
        kept = {k: v for k, v in s.annotations.items() if k not in marks}
        return s.replace(body=SeqStmt((*hints, body)) if hints else body, annotations=kept)

    @on(SeqStmt)
    def _sequence(self, s: SeqStmt) -> Stmt:
        found: list[Stmt] = []
        for i, step in enumerate(s.seq):
            if isinstance(step, For) and EARLY in step.annotations:
                found += [line for later in s.seq[i + 1 :] for line in _lines(later)]
            found.append(self.visit(step))
        return SeqStmt(tuple(found))

    @on(Block)
    def _block(self, block: Block) -> Block:
        kept = {k: v for k, v in block.annotations.items() if k != EARLY}
        new: Block = self.rebuild(block)
        return new if len(kept) == len(block.annotations) else new.replace(annotations=kept)

    def _next_row(self, s: For) -> list[Stmt]:
        """Prefetches of what an iteration reads of a tensor in the next row."""
        name, between = _next_of(s)
        if between >= len(self.around):
            raise TVMError(
                located(
                    f"InjectSoftwarePrefetch: loop {s.loop_var.name} must stand in a loop over rows and {between} more, as {NEXT!r} says,"
                    f" but there are {len(self.around)} around it",
                    s,
                )
            )
        row = self.around[-1 - between]
        inner, below = s.body, s
        while isinstance(inner, For):
            below, inner = inner, inner.body
        if not isinstance(inner, BlockRealize):
            return []
        read = _read(s, name, NEXT)
        values = dict(zip([v.var for v in inner.block.iter_vars], inner.iter_values, strict=True))
        later = {row.loop_var: min_value(row.loop_var + 1, row.min + row.extent - 1)}
        extent = (_extent(below) or 1) if below is not s else 1
        hints: list[Stmt] = []
        for k in range(0, extent, LINE // read.buffer.dtype.bytes):
            here = {below.loop_var: const(k, below.loop_var.dtype)} if below is not s else {}
            first = [substitute(substitute(substitute(r.min, values), here), later) for r in read.region]
            if not is_true(inner.predicate):
                first = [min_value(i, d - 1) for i, d in zip(first, read.buffer.shape, strict=True)]
            hints.append(_prefetch(read.buffer, first, NEAREST))
        return hints

    def _panel(self, s: For) -> list[Stmt]:
        """Prefetches of the next panel in a step; none if a panel has more lines than the steps can fetch."""
        name, parts, panels, rows, reduced = _panels_of(s)
        read = _read(s, name, PANELS)
        if len(self.around) <= rows + reduced:
            raise TVMError(
                located(
                    f"InjectSoftwarePrefetch: loop {s.loop_var.name} must stand in a loop over tiles and {rows + reduced} more, "
                    f"as {PANELS!r} says, but there are {len(self.around)} around it",
                    s,
                )
            )
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
        # The number of rows of tiles that this takes, or 1.
        enough = -(-panel // (steps * in_line * MOST_LINES)) if rows else 1
        step = -(-panel // (steps * enough))
        lines = -(-step // in_line)
        if lines > MOST_LINES:
            return []
        row, at_step = _count(between[:rows]), _count(loops)
        tile: Any = tiles.loop_var
        begin = ((tile % parts * enough + row) * count + at_step) * step
        panel_now = tile // parts if _extent(tiles) == parts * panels else tile // parts % panels
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


def _panels_of(s: For) -> tuple[str, int, int, int, int]:
    """The annotation of a loop over the steps of panels."""
    given = s.annotations[PANELS]
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    names = [str(v.value if isinstance(v, StringImm) else v) for v in values if isinstance(v, (str, StringImm))]
    numbers = [int(v) for v in values if isinstance(v, (int, IntImm))]
    fits = len(values) == 5 and len(names) == 1 and len(numbers) == 4
    if not fits or min(numbers[:2]) < 1 or min(numbers[2:]) < 0:
        raise TVMError(
            located(
                f"InjectSoftwarePrefetch: the annotation {PANELS!r} of loop {s.loop_var.name} must hold a tensor's name, the tiles of a "
                f"panel, the panels, and the loops over rows and over steps between, but is {given!r}",
                s,
            )
        )
    return (names[0], numbers[0], numbers[1], numbers[2], numbers[3])


def _next_of(s: For) -> tuple[str, int]:
    """The annotation of a loop whose next row is fetched."""
    given = s.annotations[NEXT]
    values = [getattr(v, "value", v) for v in given] if isinstance(given, (list, tuple)) else [given]
    if len(values) != 2 or not isinstance(values[0], str) or not isinstance(values[1], int) or values[1] < 0:
        raise TVMError(
            located(
                f"InjectSoftwarePrefetch: the annotation {NEXT!r} of loop {s.loop_var.name} must hold a tensor's name and the number of"
                f" loops between the loop over rows and this one, but is {given!r}",
                s,
            )
        )
    return values[0], values[1]


def _lines(s: Stmt) -> list[Stmt]:
    """Prefetches of the reads of an annotated block: its loops, with one iteration for each cache line of a vector."""
    if isinstance(s, BlockRealize):
        return _line_hints(s) if EARLY in s.block.annotations else []
    if not isinstance(s, For):
        return []
    inner = _lines(s.body)
    if not inner:
        return []
    body = inner[0] if len(inner) == 1 else SeqStmt(tuple(inner))
    extent = _extent(s)
    if s.kind is not ForKind.VECTORIZED or not isinstance(s.body, BlockRealize) or extent is None:
        return [renew_stmt(s.replace(body=body, annotations={}))]
    step = LINE // s.body.block.writes[0].buffer.dtype.bytes
    return [substitute(body, {s.loop_var: const(first, s.loop_var.dtype)}) for first in range(0, extent, step)]


def _line_hints(realize: BlockRealize) -> list[Stmt]:
    values = dict(zip([v.var for v in realize.block.iter_vars], realize.iter_values, strict=True))
    found: list[Stmt] = []
    for read in tensors_of(realize.block):
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


def _read(s: For, name: str, mark: str) -> BufferRegion:
    """The read of a tensor by a block below a loop."""
    reads: list[BufferRegion] = []

    def look(e: Any) -> None:
        if isinstance(e, BlockRealize):
            reads.extend(e.block.reads)

    post_order_visit(s.body, look)
    found = [r for r in reads if r.buffer.name == name]
    if not found:
        known = sorted({r.buffer.name for r in reads})
        raise TVMError(
            located(
                f"InjectSoftwarePrefetch: no block below loop {s.loop_var.name} reads a tensor named {name!r}, as {mark!r} says; "
                f"the blocks read {', '.join(known) or 'nothing'}",
                s,
            )
        )
    return found[0]
