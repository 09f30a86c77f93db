"""Primitives for results with a halo, which readers with padding need not copy: decompose_halo and elide_copy."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Visitor, on
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    MatchBufferRegion,
    Stmt,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import need_complete
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, conjuncts, leaf_of, leaves, scope_root
from tilewright.tir.schedule.facts.linear_forms import combine, is_const
from tilewright.tir.schedule.facts.regions import access_regions, needed
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, ReplaceStmts, body_list, with_statements
from tilewright.tir.schedule.primitives.storage.padding import bounds_of, padding_parts, shrunk
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of
from tilewright.tir.schedule.trace import BlockRV, primitive

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule

Span = tuple[int, int]


@primitive
def decompose_halo(s: Schedule, block: BlockRV | str) -> list[BlockRV]:
    """for i in 10: B[i] = A[i - 1] if 1 <= i < 9 else 0
    -->
    for i in 1: B[i] = 0;  for i in 1: B[i + 9] = 0;  ...;  for i in 8: B[i + 1] = A[i]

    New blocks at the start of the scope write the halo: for each padded axis the parts before and after the inside. They
    stand in common loops over the axes before the first padded one. Returns them; the old block writes the inside.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    need_complete(state, ref)
    condition, inside, outside = padding_parts(old)
    scope = scope_root(ref)
    statements = body_list(scope.stmt.body)
    leaf = _alone(ref, statements)
    buffer: Buffer = old.body.buffer
    sizes = [_constant(d) for d in buffer.shape]
    variables = [iv.var for iv in old.iter_vars]
    domains = [(0, _constant(iv.dom.extent)) if _constant(iv.dom.min) == 0 else None for iv in old.iter_vars]
    in_order = len(variables) == len(sizes) and all([i is v for i, v in zip(old.body.indices, variables, strict=True)])
    if not in_order or domains != [(0, n) for n in sizes]:
        refuse("{0} must store all of {1}, at its iteration variables in order", old, buffer)
    for st in statements[: _place(statements, old)]:
        for x in leaves(st):
            if any([r.buffer is buffer for r in (*x.block.reads, *x.block.writes)]):
                refuse("{0} must be the first to use {1}, but {2} uses it before", old, buffer, x.block)
    ranges, rest = bounds_of(state, conjuncts(condition), old)
    if rest:
        refuse(f"the condition of {{0}} must bound its variables by constants, but is {rest[0]}", old)
    if not ranges:
        refuse("the condition of {0} must leave out something", old)
    spans: list[Span] = [tuple(ranges.get(v, (0, n - 1))) for v, n in zip(variables, sizes, strict=True)]  # type: ignore[misc]
    nest, made = _halo(buffer, outside, spans, sizes, old.name_hint)
    for v, (low, extent) in made.ranges.items():
        state.note_range(v, IntImm(v.dtype, low), IntImm(v.dtype, extent))
    body = BufferStore(buffer, inside, old.body.indices)
    reads, _ = access_regions(state, body)
    kept = old.replace(body=body, reads=reads)
    loops, values, _ = shrunk(state, leaf, list(leaf.loops), ranges)
    realize: Stmt = leaf.realize.replace(iter_values=tuple(values), block=kept)
    for lp in reversed(loops):
        realize = lp.replace(body=realize)
    changed = [realize if any([x.block is old for x in leaves(st)]) else st for st in statements]
    new = with_statements(scope.stmt.body, [nest, *changed])
    state.replace(scope, scope.stmt.replace(body=new), {old: kept})
    return [s.block_rv(state.ref(b)) for b in made.blocks]


def _alone(ref: StmtSRef, statements: list[Stmt]) -> Leaf:
    """The leaf of a block that is directly in its scope, in serial loops of its own. Others are refused."""
    leaf = leaf_of(ref)
    if len(leaves(statements[_place(statements, ref.stmt)])) != 1 or leaf.conditional:
        refuse("{0} must be in loops of its own", ref.stmt)
    for lp in leaf.loops:
        if lp.kind != ForKind.SERIAL:
            refuse("{0} must be a serial loop", lp)
    return leaf


def _place(statements: list[Stmt], block: Block) -> int:
    return next(i for i, st in enumerate(statements) if any([x.block is block for x in leaves(st)]))


def _constant(e: Any) -> int:
    return e.value if isinstance(e, IntImm) else -1


class _Made:
    """The blocks that write a halo, and the ranges of their variables."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.ranges: dict[Var, Span] = {}


def _halo(buffer: Buffer, value: PrimExpr, spans: list[Span], sizes: list[int], name: str) -> tuple[Stmt, _Made]:
    """The loops that write the halo: for each axis the parts before and after the inside, the inside on earlier axes,
    and all of later axes.
    """
    padded = [axis for axis, ((low, high), n) in enumerate(zip(spans, sizes, strict=True)) if high - low + 1 < n]
    first, made = padded[0], _Made()
    outer = [Var(f"b{axis}", buffer.shape[axis].dtype) for axis in range(first)]
    parts: list[Stmt] = []
    for axis in padded:
        low, high = spans[axis]
        for part in ((0, low - 1), (high + 1, sizes[axis] - 1)):
            if part[0] <= part[1]:
                here = [
                    spans[k] if k < axis else part if k == axis else (0, sizes[k] - 1) for k in range(first, len(sizes))
                ]
                parts.append(_constant_part(buffer, value, outer, here, f"{name}_halo_{len(parts)}", made))
    nest = seq_of(parts)
    for v, n in reversed(list(zip(outer, sizes, strict=False))):
        made.ranges[v] = 0, n
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest, made


def _constant_part(
    buffer: Buffer, value: PrimExpr, outer: list[Var], spans: list[Span], name: str, made: _Made
) -> Stmt:
    loops = [Var(f"b{len(outer) + k}", buffer.shape[len(outer) + k].dtype) for k in range(len(spans))]
    begins, ends = [0] * len(outer) + [low for low, _ in spans], [_constant(n) for n in buffer.shape[: len(outer)]]
    ends += [high + 1 for _, high in spans]
    axes = [
        IterVar(
            Range.from_min_extent(IntImm(v.dtype, low), IntImm(v.dtype, end - low)),
            Var(f"v_{v.name}", v.dtype),
            DATA_PAR,
        )
        for v, low, end in zip([*outer, *loops], begins, ends, strict=True)
    ]
    at = tuple([iv.var for iv in axes])
    region = BufferRegion(buffer, tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in at]))
    block = Block(tuple(axes), (), (region,), name, BufferStore(buffer, value, at))
    made.blocks.append(block)
    values = [v + low if low else v for v, low in zip([*outer, *loops], begins, strict=True)]
    nest: Stmt = BlockRealize(tuple(values), IntImm("bool", 1), block)
    for v, (low, high) in reversed(list(zip(loops, spans, strict=True))):
        made.ranges[v] = 0, high - low + 1
        nest = For(v, 0, high - low + 1, ForKind.SERIAL, nest)
    return nest


@primitive
def elide_copy(s: Schedule, block: BlockRV | str) -> None:
    """alloc B;  B[i] = f(i);  for i in 8: C[i + 1] = B[i]   -->   B := a view of C from 1 on;  B[i] = f(i)

    The block must copy all of a buffer of its scope, in loops of its own. Nothing else may use that part of the other
    buffer before it, or write it after. Let this be the last primitive for the blocks of the scope: two buffers share
    memory then, and primitives that move work need to tell buffers apart.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    scope = scope_root(ref)
    statements = body_list(scope.stmt.body)
    leaf = _alone(ref, statements)
    store = old.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad) or old.init is not None:
        refuse("{0} must copy one buffer to another", old)
    source, target = store.value.buffer, store.buffer
    if source is target or source not in scope.stmt.alloc_buffers:
        refuse("{0} must copy a buffer that its scope allocates, but copies {1}", old, source)
    if source.dtype != target.dtype or source.scope() != target.scope() or len(source.shape) != len(target.shape):
        refuse("{1} and {2} must have the same type, scope and number of dimensions", old, source, target)
    if source.strides or target.strides or target.axis_separators or _constant(target.elem_offset) != 0:
        refuse("{1} and {2} must have no strides", old, source, target)
    sizes = [_constant(d) for d in target.shape]
    if any([n < 0 for n in sizes[1:]]):
        refuse("{1} must have a constant shape", old, target)
    before = _shifts(state, leaf, source, target)
    inside = [(low, low + _constant(n) - 1) for low, n in zip(before, source.shape, strict=True)]
    place = _place(statements, old)
    for i, st in enumerate(statements):
        for x in leaves(st):
            if x.block is not old:
                _need_apart(state, x, target, inside, old, i > place)
            if i > place and any([r.buffer is source for r in x.block.writes]):
                refuse("{0} must copy what {1} holds to the end, but {2} writes it after", old, source, x.block)
    steps = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    view = decl_buffer(
        source.shape,
        source.dtype,
        source.name,
        data=target.data,
        strides=steps,
        elem_offset=sum([n * step for n, step in zip(before, steps, strict=True)]),
    )
    _NoPointer(source).visit(scope.stmt.body)
    rewriter = ReplaceBuffers({source: view})
    body = ReplaceStmts({id(leaf.realize): None}).run(scope.stmt.body)
    left = tuple([b for b in scope.stmt.alloc_buffers if b is not source])
    if body is None:
        refuse("{0} must have a producer", old)
    state.replace(scope, scope.stmt.replace(body=rewriter.visit(body), alloc_buffers=left), rewriter.reuse)
    state.aliases = state.find_aliases()


def _shifts(state: ScheduleState, leaf: Leaf, source: Buffer, target: Buffer) -> list[int]:
    """The index of the source's first element in the target, for a block that copies all of the source."""
    forms, store = state.forms, leaf.block.body
    where = dict(zip([iv.var for iv in leaf.block.iter_vars], leaf.realize.iter_values, strict=True))
    loops = {lp.loop_var: lp for lp in leaf.loops}
    env = {v: forms.of(e) for v, e in where.items()}
    found: list[int] = []
    used: set[PrimExpr] = set()
    for at, to, n in zip(store.value.indices, store.indices, source.shape, strict=True):
        read = forms.of(at, env)
        shift = combine(forms.of(to, env), read, -1)
        first = forms.emit(read)
        extent = loops[first].extent if isinstance(first, Var) and first in loops and first not in used else None
        used.add(first)
        whole = extent is not None and _constant(extent) == _constant(n) > 0 and _constant(loops[first].min) == 0
        if not is_const(shift) or shift.const < 0 or not (whole or (_constant(n) == 1 and _constant(first) == 0)):
            refuse("{0} must copy all of {1}, shifted by constants", leaf.block, source)
        found.append(shift.const)
    if conjuncts(leaf.realize.predicate):
        refuse("{0} must copy all of {1}, but has a predicate", leaf.block, source)
    if any(
        [low + _constant(n) > _constant(size) for low, n, size in zip(found, source.shape, target.shape, strict=True)]
    ):
        refuse("{1} must hold all of {2}", leaf.block, target, source)
    return found


def _need_apart(state: ScheduleState, leaf: Leaf, target: Buffer, inside: list[Span], old: Block, later: bool) -> None:
    """Require that a block does not use the inside of a buffer before the copy, and does not write it after the copy."""
    for regions in (leaf.block.writes,) if later else (leaf.block.writes, leaf.block.reads):
        for r in regions:
            if r.buffer is target and not _apart(state, needed(state, r, leaf, leaf.loops), inside):
                when = "written by {2} after it" if later else "used by {2} before"
                refuse(f"what {{0}} writes of {{1}} must not be {when}", old, target, leaf.block)


def _apart(state: ScheduleState, region: Any, inside: list[Span]) -> bool:
    """Whether a region and a box have no element in common."""
    for bounds, (low, high) in zip(region, inside, strict=True):
        if bounds is not None:
            least, most = state.forms.const_bounds(bounds[0])[0], state.forms.const_bounds(bounds[1])[1]
            if (most is not None and most < low) or (least is not None and least > high):
                return True
    return False


class _NoPointer(Visitor):
    """Refuses programs that use a buffer except by loads, stores and views of unknown strides."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    @on(Buffer)
    def _buffer(self, b: Buffer) -> None:
        pass

    @on(Var)
    def _var(self, v: Var) -> None:
        if v is self.buffer.data:
            refuse("{0} is given to a call by its address, which this primitive cannot rewrite", self.buffer)

    @on(MatchBufferRegion)
    def _match(self, m: MatchBufferRegion) -> None:
        if m.source.buffer is self.buffer and not all([isinstance(x, Var) for x in m.buffer.strides[:-1]]):
            refuse(
                "{0} is viewed through a match_buffer of known strides, which this primitive cannot rewrite",
                self.buffer,
            )
