"""Changes of the graph of a schedule: operations that read other tensors, copies, and reductions in two steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.ir import PrimExpr, Range, as_prim_expr
from tilewright.node import Mutator, on
from tilewright.te.operation import ComputeOp, ExternOp, Operation, ScanOp
from tilewright.te.schedule_stage import Fuse, Split, Stage, find
from tilewright.te.tensor import Tensor
from tilewright.tir.arithmetic import cast_to, floordiv, floormod, logical_and
from tilewright.tir.expr import LT, IterVar, ProducerLoad, Reduce, Var
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule


class _Redirect(Mutator):
    """Replaces loads of some tensors by loads of others."""

    def __init__(self, tensors: Mapping[Tensor, Tensor]) -> None:
        self.tensors = tensors

    @on(ProducerLoad)
    def _load(self, load: ProducerLoad) -> PrimExpr:
        indices = tuple([self.visit(i) for i in load.indices])
        return ProducerLoad(self.tensors.get(load.producer, load.producer), indices)


def redirected(op: Operation, tensors: Mapping[Tensor, Tensor]) -> Operation:
    """The operation on other inputs; the same operation if none of its inputs change."""
    reads: tuple[Tensor, ...] = op.input_tensors
    if isinstance(op, ScanOp):
        reads = (*reads, *op.state_placeholder, *op.inputs)
    if not any([t in tensors for t in reads]):
        return op
    if isinstance(op, ComputeOp):
        return op.replace(body=redirect_body(op.body, tensors))

    def moved(many: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple([tensors.get(t, t) for t in many])

    if isinstance(op, ExternOp):
        return op.replace(inputs=moved(op.inputs))
    assert isinstance(op, ScanOp)
    return op.replace(
        init=moved(op.init),
        update=moved(op.update),
        state_placeholder=moved(op.state_placeholder),
        inputs=moved(op.inputs),
    )


def redirect_body(body: tuple[PrimExpr, ...], tensors: Mapping[Tensor, Tensor]) -> tuple[PrimExpr, ...]:
    """Bodies on other inputs. The parts of a tuple reduction still share their sources and axes."""
    redirect = _Redirect(tensors)
    first = body[0]
    if not isinstance(first, Reduce):
        return tuple([redirect.visit(e) for e in body])
    return _same_reduce(body, redirect.rebuild(first))


def _same_reduce(body: tuple[PrimExpr, ...], changed: Reduce) -> tuple[PrimExpr, ...]:
    return tuple([changed.replace(value_index=i) for i in range(len(body))])


def replace_op(s: Schedule, stage: Stage, new: Operation) -> None:
    """Replace the operation of a stage by another with the same outputs, and redirect its readers."""
    moved = dict(zip(stage.op.outputs, new.outputs, strict=True))
    s.adopt(stage, new)
    for other in s.stages:
        if other is stage or other.members is not None:
            continue
        changed = redirected(other.op, moved)
        if changed is not other.op:
            moved.update(zip(other.op.outputs, changed.outputs, strict=True))
            s.adopt(other, changed)


def _insert(s: Schedule, at: int, op: Operation, scope: str) -> Stage:
    stage = Stage(s, op, False)
    stage.scope = "" if scope == "global" else scope
    s.stages.insert(at, stage)
    s.register(stage)
    return stage


def cache_read(s: Schedule, tensor: Tensor, scope: str, readers: list[Operation]) -> Tensor:
    tensor = s.current(tensor)
    stage = s[tensor]
    stage.known_scope("cache_read", scope)
    users = [s[r] for r in readers]
    if not users:
        raise stage.refuse("cache_read", "at least one reader of the copy must be given")
    for user in users:
        if tensor not in user.op.input_tensors:
            raise user.refuse("cache_read", f"it must read {tensor.name}, of which a copy was asked for it")
    axis = tuple(
        [
            IterVar(Range.from_min_extent(as_prim_expr(0, dtype=d.dtype), d), Var(f"ax{i}", d.dtype), IterVar.DataPar)
            for i, d in enumerate(tensor.shape)
        ]
    )
    name = (
        f"{tensor.op.name}.{scope}" if tensor.op.num_outputs == 1 else f"{tensor.op.name}.v{tensor.value_index}.{scope}"
    )
    copy = ComputeOp(name, "", {}, axis, (tensor(*axis),))
    _insert(s, s.stages.index(stage) + 1, copy, scope)
    for user in users:
        replace_op(s, user, redirected(user.op, {tensor: copy.output(0)}))
    return copy.output(0)


def cache_write(s: Schedule, tensors: list[Tensor], scope: str) -> list[Tensor]:
    current = [s.current(t) for t in tensors]
    stage = s[current[0]]
    op = stage.op
    stage.known_scope("cache_write", scope)
    if not isinstance(op, ComputeOp):
        raise stage.refuse("cache_write", f"it must be a compute, but is a {type(op).__name__}")
    if len(current) != op.num_outputs or {t.op for t in current} != {op}:
        raise stage.refuse("cache_write", f"all its {op.num_outputs} outputs must be given together")
    if stage.actions:
        raise stage.refuse(
            "cache_write", "its axes are changed already; call cache_write before split, fuse and reorder"
        )
    fresh = tuple([IterVar(a.dom, Var(f"{a.var.name}.c", a.var.dtype), a.iter_type) for a in op.axis])
    env = {a.var: b.var for a, b in zip(op.axis, fresh, strict=True)}
    first = op.body[0]
    if isinstance(first, Reduce):
        body = _same_reduce(op.body, _substituted(first, env))
    else:
        body = tuple([substitute(e, env) for e in op.body])
    cached = ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, fresh, body)
    _insert(s, s.stages.index(stage), cached, scope)
    replace_op(s, stage, ComputeOp(op.name, op.tag, {}, op.axis, tuple([t(*op.axis) for t in cached.outputs])))
    stage.reset()
    return list(cached.outputs)


def _substituted(reduce: Reduce, env: Mapping[Var, PrimExpr]) -> Reduce:
    """Replace variables in the sources, condition and initial values of a reduction. Its axes stay the same objects."""
    table = dict(env)
    return reduce.replace(
        source=tuple([substitute(e, table) for e in reduce.source]),
        condition=substitute(reduce.condition, table),
        init=tuple([substitute(e, table) for e in reduce.init]),
    )


class _Extents:
    """The extents of axes made by splits and fusions, and the original axes as expressions of the leaves."""

    def __init__(self, stage: Stage) -> None:
        self.extent: dict[Var, PrimExpr] = {a.var: a.dom.extent for a in stage.root_iter_vars if a.dom is not None}
        self.conditions: dict[Var, list[PrimExpr]] = {}
        self.parts: dict[Var, set[Var]] = {}
        actions = [a for a in stage.actions if isinstance(a, (Split, Fuse))]
        for a in actions:
            if isinstance(a, Split):
                whole = self.extent[a.parent.var]
                size = as_prim_expr(a.factor if a.nparts is None else a.nparts, dtype=whole.dtype)
                other = floordiv(whole + size - 1, size)
                outer, inner = (other, size) if a.nparts is None else (size, other)
                self.extent[a.outer.var], self.extent[a.inner.var] = outer, inner
            else:
                self.extent[a.fused.var] = self.extent[a.outer.var] * self.extent[a.inner.var]
        self.value: dict[Var, PrimExpr] = {a.var: a.var for a in stage.leaf_iter_vars}
        self.leaves: dict[Var, set[Var]] = {a.var: {a.var} for a in stage.leaf_iter_vars}
        for a in reversed(actions):
            if isinstance(a, Split):
                o, i, p = a.outer.var, a.inner.var, a.parent.var
                self.value[p] = self.value[o] * self.extent[i] + self.value[i]
                self.leaves[p] = self.leaves[o] | self.leaves[i]
                over = self.conditions.get(o, []) + self.conditions.get(i, [])
                if not _equal(self.extent[o] * self.extent[i], self.extent[p]):
                    over = [*over, LT(self.value[p], self.extent[p])]
                self.conditions[p] = over
            else:
                f = a.fused.var
                for axis, part in ((a.outer.var, floordiv), (a.inner.var, floormod)):
                    self.value[axis] = cast_to(part(self.value[f], self.extent[a.inner.var]), axis.dtype)
                self.leaves[a.outer.var] = self.leaves[a.inner.var] = self.leaves[f]
                self.conditions[a.outer.var] = self.conditions.get(f, [])


def _equal(a: PrimExpr, b: PrimExpr) -> bool:
    from tilewright.arith import Analyzer

    return bool(Analyzer().can_prove_equal(a, b))


def rfactor(s: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int) -> list[Tensor]:
    tensor = s.current(tensor)
    stage = s[tensor]
    op = stage.op
    first = op.body[0] if isinstance(op, ComputeOp) else None
    if not isinstance(op, ComputeOp) or not isinstance(first, Reduce):
        raise stage.refuse("rfactor", "it must be a reduction")
    stage._leaf("rfactor", axis)
    if axis.iter_type != IterVar.CommReduce:
        raise stage.refuse("rfactor", f"{axis.var.name} must be a reduction axis, but is spatial")
    rank = len(op.axis)
    place = factor_axis if factor_axis >= 0 else factor_axis + rank + 1
    if not 0 <= place <= rank:
        raise stage.refuse("rfactor", f"factor_axis must be from {-rank - 1} to {rank}, but is {factor_axis}")
    known = _Extents(stage)
    env: dict[Var, PrimExpr] = {}
    inner: list[IterVar] = []
    condition: PrimExpr = first.condition
    leaves: dict[Var, IterVar] = {}
    for leaf in stage.leaf_iter_vars:
        if leaf.iter_type == IterVar.CommReduce:
            kind = IterVar.DataPar if leaf.var is axis.var else IterVar.CommReduce
            extent = known.extent[leaf.var]
            low = leaf.dom.min if find(op.reduce_axis, leaf) is not None and leaf.dom is not None else 0
            dom = Range.from_min_extent(as_prim_expr(low, dtype=extent.dtype), extent)
            leaves[leaf.var] = IterVar(dom, Var(leaf.var.name, leaf.var.dtype), kind)
    moved = {old: new.var for old, new in leaves.items()}
    for root in op.reduce_axis:
        assert root.dom is not None
        value = substitute(known.value[root.var], moved)
        changed = root.var not in leaves
        env[root.var] = value + root.dom.min if changed and not _equal(root.dom.min, as_prim_expr(0)) else value
        for c in known.conditions.get(root.var, []):
            condition = logical_and(condition, substitute(c, moved))
    inner = [a for old, a in leaves.items() if old is not axis.var]
    spatial = [IterVar(a.dom, Var(a.var.name, a.var.dtype), a.iter_type) for a in op.axis]
    env.update({a.var: b.var for a, b in zip(op.axis, spatial, strict=True)})
    new_axes = (*spatial[:place], leaves[axis.var], *spatial[place:])
    source = tuple([substitute(e, env) for e in first.source])
    condition = substitute(condition, env)
    combiner = first.combiner
    parts: tuple[PrimExpr, ...]
    if inner or not _is_true(condition):
        partial = Reduce(combiner, source, tuple(inner) or (_unit(),), condition, 0, ())
        parts = tuple([partial.replace(value_index=i) for i in range(len(op.body))])
    else:
        parts = source
    factored = ComputeOp(f"{op.name}.rf", op.tag, op.attrs, new_axes, parts)
    _insert(s, s.stages.index(stage), factored, stage.scope or "global")
    again = IterVar(leaves[axis.var].dom, Var(f"{axis.var.name}.v", axis.var.dtype), IterVar.CommReduce)
    at = (*[a.var for a in op.axis[:place]], again.var, *[a.var for a in op.axis[place:]])
    sums = tuple([t(*at) for t in factored.outputs])
    second = Reduce(combiner, sums, (again,), as_prim_expr(True), 0, first.init)
    replace_op(s, stage, op.replace(body=tuple([second.replace(value_index=i) for i in range(len(op.body))])))
    stage.reset()
    return list(factored.outputs)


def _is_true(e: PrimExpr) -> bool:
    return bool(getattr(e, "value", 0))


def _unit() -> IterVar:
    return IterVar(Range(0, 1), Var("u", "int32"), IterVar.CommReduce)
