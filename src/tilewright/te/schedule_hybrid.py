"""Schedules of hybrid scripts: split, fuse, reorder and mark the loops of a script as its stage requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.arith import Analyzer, detect_iter_map, detect_linear_equation
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import Mutator, Visitor, on, structural_equal
from tilewright.te.operation import HybridOp
from tilewright.te.schedule_stage import Fuse, Reordered, Split, Stage
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import LT, BufferLoad, IterVar, Var
from tilewright.tir.op import likely
from tilewright.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from tilewright.tir.stmt_functor import substitute, used_vars

KINDS = {"vectorized": ForKind.VECTORIZED, "unrolled": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}


def rescheduled(op: HybridOp, stage: Stage) -> HybridOp:
    """The operation with the loops of its stage. Raises ScheduleError if a change could affect the results."""
    if not stage.actions and not stage.marks:
        return op
    assert op.body is not None
    body = op.body
    for action in stage.actions:
        if isinstance(action, Split):
            body = _change(body, action.parent, partial(_split, stage, action))
        elif isinstance(action, Fuse):
            body = _change(body, action.outer, partial(_fuse, stage, action))
        elif isinstance(action, Reordered):
            body = _reorder(stage, body, action)
        else:
            raise stage.refuse(
                "fuse", "the loops of a hybrid script are given; a new one of extent one cannot be added"
            )
    for axis in stage.leaf_iter_vars:
        if axis.var in stage.marks:
            body = _change(body, axis, partial(_mark, stage, body, axis))
    return op.replace(body=_Rename().visit(body))


class _Change(Mutator):
    def __init__(self, var: Var, change: Callable[[For], Stmt]) -> None:
        self.var, self.change = var, change

    @on(For)
    def _for(self, s: For) -> Stmt:
        return self.change(s) if s.loop_var is self.var else self.rebuild(s)


def _change(body: Stmt, axis: IterVar, change: Callable[[For], Stmt]) -> Stmt:
    out: Stmt = _Change(axis.var, change).visit(body)
    return out


class _Rename(Mutator):
    """Renames loops to Python names: the dots of axes become underscores."""

    def __init__(self) -> None:
        self.env: dict[Var, Var] = {}

    @on(For)
    def _for(self, s: For) -> Stmt:
        if "." in s.loop_var.name:
            self.env[s.loop_var] = Var(s.loop_var.name.replace(".", "_"), s.loop_var.dtype)
        new = self.rebuild(s)
        return new.replace(loop_var=self.env.get(s.loop_var, s.loop_var))

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)


def _need_serial(stage: Stage, primitive: str, loop: For) -> None:
    if loop.kind != ForKind.SERIAL:
        raise stage.refuse(primitive, f"{loop.loop_var.name} must be a loop over range in the script")


def _split(stage: Stage, action: Split, loop: For) -> Stmt:
    _need_serial(stage, "split", loop)
    extent, dtype = loop.extent, loop.loop_var.dtype
    size = as_prim_expr(action.factor if action.nparts is None else action.nparts, dtype=dtype)
    other = Analyzer().simplify(floordiv(extent + size - 1, size))
    many, few = (other, size) if action.nparts is None else (size, other)
    index = action.outer.var * few + action.inner.var
    body: Stmt = substitute(loop.body, {loop.loop_var: index + loop.min})
    if not Analyzer().can_prove_equal(many * few, extent) and not action.disable_predication:
        body = IfThenElse(likely(LT(index, extent)), body, None)
    zero = IntImm(dtype, 0)
    return For(action.outer.var, zero, many, ForKind.SERIAL, For(action.inner.var, zero, few, ForKind.SERIAL, body))


def _fuse(stage: Stage, action: Fuse, loop: For) -> Stmt:
    inner = loop.body
    if not isinstance(inner, For) or inner.loop_var is not action.inner.var:
        raise stage.refuse(
            "fuse",
            f"{action.outer.var.name} must hold nothing but {action.inner.var.name}, but the script has more in it",
        )
    _need_serial(stage, "fuse", loop)
    _need_serial(stage, "fuse", inner)
    fused = action.fused.var
    values = {
        loop.loop_var: floordiv(fused, inner.extent) + loop.min,
        inner.loop_var: floormod(fused, inner.extent) + inner.min,
    }
    body: Stmt = substitute(inner.body, values)
    return For(fused, IntImm(fused.dtype, 0), loop.extent * inner.extent, ForKind.SERIAL, body)


class _Chain:
    """Perfectly nested loops (except for the conditions of splits), outermost first."""

    def __init__(self, top: For) -> None:
        self.loops: list[For] = []
        self.conditions: list[PrimExpr] = []
        body: Stmt = top
        while True:
            if isinstance(body, For):
                self.loops.append(body)
                body = body.body
            elif _is_guard(body):
                assert isinstance(body, IfThenElse)
                self.conditions.append(body.condition)
                body = body.then_case
            else:
                break
        self.body = body

    def in_order(self, order: Sequence[For]) -> Stmt:
        body = self.body
        for condition in reversed(self.conditions):
            body = IfThenElse(condition, body, None)
        for loop in reversed(order):
            body = loop.replace(body=body)
        return body


def _is_guard(stmt: Stmt) -> bool:
    if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
        return False
    return getattr(getattr(stmt.condition, "op", None), "name", "") == "tir.likely"


class _Reorder(Mutator):
    def __init__(self, stage: Stage, wanted: list[Var], whole: Stmt) -> None:
        self.stage, self.wanted, self.whole = stage, wanted, whole

    @on(For)
    def _for(self, s: For) -> Stmt:
        chain = _Chain(s)
        chain.body = self.visit(chain.body)
        loops = sorted(chain.loops, key=lambda lp: self.wanted.index(lp.loop_var))
        if [lp.loop_var for lp in loops] != [lp.loop_var for lp in chain.loops]:
            for lp in loops:
                for bound in (lp.min, lp.extent):
                    if any([_uses(bound, other.loop_var) for other in loops]):
                        raise self.stage.refuse("reorder", f"the bounds of {lp.loop_var.name} depend on another loop")
            _need_same_order(self.stage, chain, loops, self.whole)
        return chain.in_order(loops)


def _reorder(stage: Stage, body: Stmt, action: Reordered) -> Stmt:
    wanted = [a.var for a in action.leaves]
    out: Stmt = _Reorder(stage, wanted, body).visit(body)
    order = _loop_vars(out)
    if order != wanted:
        raise stage.refuse(
            "reorder",
            f"the order {', '.join([v.name for v in wanted])} cannot be had: loops change places only where they hold"
            f" nothing but each other, which leaves {', '.join([v.name for v in order])}",
        )
    return out


def _loop_vars(body: Stmt) -> list[Var]:
    found: list[Var] = []

    class Look(Visitor):
        @on(For)
        def _for(self, s: For) -> None:
            found.append(s.loop_var)
            self.visit(s.body)

    Look().visit(body)
    return found


def _mark(stage: Stage, whole: Stmt, axis: IterVar, loop: For) -> Stmt:
    mark = stage.marks[axis.var]
    name = axis.var.name
    for used, primitive in ((mark.tensor_intrin, "tensorize"), (mark.prefetches, "prefetch")):
        if used:
            raise stage.refuse(primitive, f"{name} is a loop of a hybrid script, which cannot be tensorized")
    notes = {f"pragma_{k}": 1 if v is None else v for k, v in mark.pragmas}
    loop = loop.replace(annotations={**loop.annotations, **notes})
    if mark.bind_thread is not None:
        _need_apart(stage, "bind", whole, loop)
        tag = mark.bind_thread.thread_tag
        thread = IterVar(None, Var(tag, loop.loop_var.dtype), IterVar.ThreadIndex, tag)
        return loop.replace(kind=ForKind.THREAD_BINDING, thread_binding=thread)
    if mark.kind is None:
        return loop
    if mark.kind != "unrolled":
        primitive = "vectorize" if mark.kind == "vectorized" else "parallel"
        if mark.kind == "vectorized" and not isinstance(loop.extent, IntImm):
            raise stage.refuse(primitive, f"{name} must have a constant extent, but runs to {loop.extent}")
        _need_apart(stage, primitive, whole, loop)
    return loop.replace(kind=KINDS[mark.kind])


# ---- loops that may be exchanged


class _Accesses(Visitor):
    """Collects indices of stores and loads by buffer, and the domains of loops."""

    def __init__(self) -> None:
        self.stores: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}
        self.loads: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}
        self.loops: dict[Var, Range] = {}

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.stores.setdefault(s.buffer, []).append(s.indices)
        self.visit_children(s)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.loads.setdefault(e.buffer, []).append(e.indices)
        self.visit_children(e)

    @on(For)
    def _for(self, s: For) -> None:
        self.loops[s.loop_var] = Range.from_min_extent(s.min, s.extent)
        self.visit_children(s)


class _SetFirst(Visitor):
    """Whether a number is set before each place that reads it."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.known, self.always = False, True

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.always &= self.known or e.buffer is not self.buffer
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.visit_children(s)
        self.known |= s.buffer is self.buffer

    @on(For)
    def _for(self, s: For) -> None:
        self._perhaps(s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        self._perhaps(s.then_case)
        if s.else_case is not None:
            self._perhaps(s.else_case)

    def _perhaps(self, body: Stmt) -> None:
        known = self.known
        self.visit(body)
        self.known = known


def _told_apart(body: Stmt, loops: Sequence[For], whole: Stmt, shared: bool = False) -> dict[Buffer, set[Var]]:
    """For each buffer that the body writes and that is visible outside: the loops whose iterations access disjoint
    elements of it.
    """
    inside, around = _Accesses(), _Accesses()
    inside.visit(body)
    around.visit(whole)
    domains = {lp.loop_var: Range.from_min_extent(lp.min, lp.extent) for lp in loops} | inside.loops
    out: dict[Buffer, set[Var]] = {}
    for buffer, stores in inside.stores.items():
        used = [*stores, *inside.loads.get(buffer, [])]
        everywhere = len(around.stores.get(buffer, [])) + len(around.loads.get(buffer, []))
        own = len(used) == everywhere and buffer.scope() == "local" and _one(buffer) and _is_set_first(body, buffer)
        if own and not shared:
            # A scalar that belongs to one iteration, and that nothing else reads.
            continue
        first = used[0]
        found: set[Var] = set()
        if all([structural_equal(i, first) for i in used]):
            names = {v: d for v, d in domains.items() if any([_uses(i, v) for i in first])}
            if names and _injective(first, names):
                found = set(names)
        out[buffer] = found
    return out


def _is_set_first(body: Stmt, buffer: Buffer) -> bool:
    walk = _SetFirst(buffer)
    walk.visit(body)
    return walk.always


def _injective(indices: tuple[PrimExpr, ...], names: dict[Var, Range]) -> bool:
    """Whether no two points of the loops have the same indices."""
    if detect_iter_map(list(indices), names, True, "Bijective").indices:
        return True
    forms: list[dict[Var, int]] = []
    for index in indices:
        parts = detect_linear_equation(index, list(names))
        steps = [abs(p.value) for p in parts[:-1] if isinstance(p, IntImm)]
        if len(steps) == len(names):
            forms.append({v: n for v, n in zip(names, steps, strict=True) if n})
    # An index distinguishes the loops that are digits of a number, if no other index distinguishes them.
    known: set[Var] = set()
    before = -1
    while len(known) != before:
        before = len(known)
        for form in forms:
            left = {v: n for v, n in form.items() if v not in known}
            if _are_digits(left, names):
                known |= set(left)
    return known == set(names)


def _are_digits(steps: dict[Var, int], names: dict[Var, Range]) -> bool:
    width: int | None = 1
    for v, step in sorted(steps.items(), key=lambda x: x[1]):
        if width is None or step < width:
            return False
        extent = names[v].extent
        width = step * extent.value if isinstance(extent, IntImm) else None
    return True


def _one(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and isinstance(buffer.shape[0], IntImm) and buffer.shape[0].value == 1


def _need_same_order(stage: Stage, chain: _Chain, order: Sequence[For], whole: Stmt) -> None:
    for buffer, apart in _told_apart(chain.body, chain.loops, whole).items():
        before = [lp.loop_var for lp in chain.loops if lp.loop_var not in apart]
        after = [lp.loop_var for lp in order if lp.loop_var not in apart]
        if before != after:
            raise stage.refuse(
                "reorder",
                f"{', '.join([v.name for v in before])} must keep their order, in which they update the same elements of"
                f" {buffer.name}",
            )


def _need_apart(stage: Stage, primitive: str, whole: Stmt, loop: For) -> None:
    outer = _around(whole, loop.loop_var)
    # Lanes share a scalar that each iteration would have separately.
    shared = primitive == "vectorize"
    for buffer, apart in _told_apart(loop.body, [*outer, loop], whole, shared).items():
        if loop.loop_var not in apart:
            raise stage.refuse(
                primitive,
                f"iterations of {loop.loop_var.name} must write different elements, which is not known of {buffer.name}",
            )


def _around(whole: Stmt, var: Var) -> list[For]:
    """The loops around a loop."""
    path: list[For] = []

    def walk(stmt: Any) -> bool:
        if isinstance(stmt, For):
            if stmt.loop_var is var:
                return True
            path.append(stmt)
            if walk(stmt.body):
                return True
            path.pop()
            return False
        if isinstance(stmt, SeqStmt):
            return any([walk(s) for s in stmt.seq])
        if isinstance(stmt, IfThenElse):
            return walk(stmt.then_case) or walk(stmt.else_case)
        if isinstance(stmt, (BlockRealize, Block)):
            return walk(stmt.block if isinstance(stmt, BlockRealize) else stmt.body)
        return False

    walk(whole)
    return path


def _uses(e: Any, var: Var) -> bool:
    return var in used_vars(e)
