"""Primitives for padding: decompose_padding and pad_einsum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.ir import FloatImm, IntImm, Op, PrimExpr, Range
from tilewright.node import Mutator, nodes_of, on
from tilewright.tir import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    For,
    ForKind,
    IterVar,
    Mul,
    Var,
    decl_buffer,
)
from tilewright.tir.expr import BinaryOpExpr
from tilewright.tir.scalars import DIVISIONS
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import need_complete, need_complete_or_reduction
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    REDUCE,
    Leaf,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    loops_above,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import ZERO, combine, shift
from tilewright.tir.schedule.facts.regions import access_regions
from tilewright.tir.schedule.primitives.copies import copy_iters
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, ReplaceStmts, body_list, vars_in, with_statements
from tilewright.tir.schedule.primitives.storage.cache import need_written
from tilewright.tir.schedule.primitives.transform import need_whole
from tilewright.tir.schedule.state import ScheduleState, seq_of
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


def padding_parts(block: Block) -> tuple[Any, Any, Any]:
    """(condition, value inside, constant outside) of `B[i] = if_then_else(condition, inside, constant)`."""
    store = block.body
    value: Any = store.value if isinstance(store, BufferStore) else None
    chosen = isinstance(value, Call) and value.op is Op.get("tir.if_then_else")
    if not chosen or not isinstance(value.args[2], (IntImm, FloatImm)):
        refuse("{0} must store if_then_else(condition, value, constant)", block)
    return value.args[0], value.args[1], value.args[2]


@primitive
def decompose_padding(s: Schedule, block: BlockRV | str, loop: LoopRV) -> BlockRV:
    """for i in 10: B[i] = A[i - 1] if 1 <= i < 9 else 0   -->   for i in 10: B[i] = 0;  for i in 8: B[i + 1] = A[i]

    A new block before `loop` fills the buffer; it is returned. The old block computes only the elements inside the
    padding. Conditions on loops outside of `loop` become its predicate.
    """
    state = s.state
    ref, loop_ref = s.block(block), s.loop(loop)
    old = ref.stmt
    need_complete(state, ref)
    condition, inside, outside = padding_parts(old)
    above = loops_above(ref)
    if loop_ref not in above:
        refuse("{0} must be around {1}", loop_ref.stmt, old)
    leaf = leaf_of(ref)
    below = [r.stmt for r in above[above.index(loop_ref) :]]
    if len(leaves(loop_ref.stmt)) != 1:
        refuse("{0} must hold only {1}", loop_ref.stmt, old)
    for lp in below:
        if lp.kind != ForKind.SERIAL:
            refuse("{0} must be a serial loop", lp)
    fill_iters, env = copy_iters(old.iter_vars)
    loop_env = {lp.loop_var: Var(lp.loop_var.name, lp.loop_var.dtype) for lp in below}
    fill_body = BufferStore(old.body.buffer, outside, tuple([substitute(i, env) for i in old.body.indices]))
    fill = Block(
        fill_iters, (), tuple([substitute(w, env) for w in old.writes]), f"{old.name_hint}_pad_const", fill_body
    )
    nest: Any = BlockRealize(
        tuple([substitute(v, loop_env) for v in leaf.realize.iter_values]),
        substitute(leaf.realize.predicate, loop_env),
        fill,
    )
    for lp in reversed(below):
        state.note_range(loop_env[lp.loop_var], lp.min, lp.extent)
        nest = For(loop_env[lp.loop_var], lp.min, lp.extent, ForKind.SERIAL, nest)
    ranges, rest = bounds_of(state, conjuncts(condition), old)
    inner, values, outer = shrunk(state, leaf, below, ranges)
    rest += outer
    bindings = {iv.var: v for iv, v in zip(old.iter_vars, values, strict=True)}
    predicate = [*conjuncts(leaf.realize.predicate), *[substitute(c, bindings) for c in rest]]
    iters, values, moved = _counted_from_zero(old, inner, values)
    indices = tuple([state.forms.simplify(substitute(i, moved)) for i in old.body.indices])
    body = BufferStore(old.body.buffer, _simplified(state, substitute(inside, moved)), indices)
    reads, writes = access_regions(state, body)
    kept = old.replace(iter_vars=iters, body=body, reads=reads, writes=writes)
    realize = BlockRealize(tuple(values), conjunction(predicate), kept)
    for lp in reversed(inner):
        realize = lp.replace(body=realize)
    parent = loop_ref.parent
    assert parent is not None
    new_body = ReplaceStmts({id(loop_ref.stmt): seq_of([nest, realize])}).run(parent.stmt.body)
    state.replace(parent, parent.stmt.replace(body=new_body), {old: kept})
    return s.block_rv(state.ref(fill))


def _counted_from_zero(
    block: Block, loops: list[Any], values: list[Any]
) -> tuple[tuple[IterVar, ...], list[Any], dict[Var, PrimExpr]]:
    """Iteration variables that are a loop plus a constant count from zero instead: (the variables, their values, what stands for the
    old ones in the body)."""
    extents = {lp.loop_var: lp for lp in loops}
    iters, new, moved = list(block.iter_vars), list(values), {}
    for i, (iv, value) in enumerate(zip(block.iter_vars, values, strict=True)):
        if isinstance(value, Add) and value.a in extents and isinstance(value.b, IntImm):
            var = Var(iv.var.name, iv.var.dtype)
            iters[i] = IterVar(Range(0, extents[value.a].extent), var, iv.iter_type, iv.thread_tag)
            new[i], moved[iv.var] = value.a, var + value.b
    return tuple(iters), new, moved


def _simplified(state: ScheduleState, value: PrimExpr) -> PrimExpr:
    """The value with the indices of its loads simplified."""

    class Indices(Mutator):
        @on(BufferLoad)
        def _load(self, e: BufferLoad) -> BufferLoad:
            return e.replace(indices=tuple([state.forms.simplify(self.visit(i)) for i in e.indices]))

    result: PrimExpr = Indices().visit(value)
    return result


def bounds_of(state: ScheduleState, conditions: list[Any], block: Any) -> tuple[dict[Any, list[int]], list[Any]]:
    """Constant ranges [low, high] of single variables, and the other conditions."""
    forms = state.forms
    own = {iv.var for iv in block.iter_vars}
    ranges: dict[Any, list[int]] = {}
    rest: list[Any] = []
    for c in conditions:
        pairs = {LT: (c, 1, 1), LE: (c, 1, 0), GT: (c, -1, 1), GE: (c, -1, 0)}.get(type(c))
        d = None
        if pairs is not None:
            d = combine(forms.of(c.a), forms.of(c.b), -1)
            d = shift(d if pairs[1] == 1 else combine(forms.of(c.b), forms.of(c.a), -1), pairs[2])
        # d <= 0
        if d is None or len(d.terms) != 1 or not forms.leaves(d) <= own or abs(next(iter(d.terms.values()))) != 1:
            rest.append(c)
            continue
        ((atom, k),) = d.terms.items()
        if atom.leaf is None or atom.leaf not in forms.ranges:
            rest.append(c)
            continue
        low, high = forms.ranges[atom.leaf]  # type: ignore[index]
        entry = ranges.setdefault(atom.leaf, [low, high])
        if k == 1:
            entry[1] = min(entry[1], -d.const)
        else:
            entry[0] = max(entry[0], d.const)
    return ranges, rest


def shrunk(
    state: ScheduleState, leaf: Any, below: list[For], ranges: dict[Any, list[int]]
) -> tuple[list[Any], list[Any], list[Any]]:
    """The loops that run only inside the ranges, their bindings, and the conditions on outer loops."""
    new_loops = {lp.loop_var: lp for lp in below}
    values: list[Any] = []
    outer: list[PrimExpr] = []
    uses: dict[PrimExpr, int] = {}
    for v in leaf.realize.iter_values:
        for x in vars_in(v):
            uses[x] = uses.get(x, 0) + 1
    for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True):
        found = ranges.get(iv.var)
        if found is None:
            values.append(value)
            continue
        low, high = found
        if not vars_in(value) & new_loops.keys():
            values.append(value)
            outer += [iv.var >= low, iv.var <= high]
            continue
        if not (
            isinstance(value, Var) and value in new_loops and uses[value] == 1
        ) or not leaf.realize.predicate.same_as(IntImm("bool", 1)):
            refuse(
                f"{iv.var.name} of {{0}} must be bound to a loop of its own below, but is bound to {value}", leaf.block
            )
        reach = new_loops[value]
        if str(reach.extent) != str(iv.dom.extent) or str(reach.min) != str(iv.dom.min):
            refuse(f"{{1}} must run over the whole domain of {iv.var.name} of {{0}}", leaf.block, reach)
        if high < low:
            refuse(f"the condition of {{0}} never holds for {iv.var.name}", leaf.block)
        lp = new_loops[value]
        var = Var(lp.loop_var.name, lp.loop_var.dtype)
        state.note_range(var, IntImm(var.dtype, 0), IntImm(var.dtype, high - low + 1))
        new_loops[value] = For(var, 0, high - low + 1, lp.kind, lp.body, None, lp.annotations)
        values.append(var + low if low else var)
    return [new_loops[lp.loop_var] for lp in below], values, outer


@primitive
def pad_einsum(s: Schedule, block: BlockRV | str, padding: list[int]) -> None:
    """C[i, j] += A[i, k] * B[k, j] for i in 7, ...   -->   the same on A_pad, B_pad, C_pad for i in 8, ...

    padding: one number per iteration variable; its extent is rounded up to a multiple of the number. New blocks before
    this one pad the inputs with zeros. A new block after it copies the valid part of the output.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    need_complete_or_reduction(state, ref)
    scope = scope_root(ref)
    if len(padding) != len(old.iter_vars):
        refuse(f"padding must have one number per iteration variable of {{0}}, which has {len(old.iter_vars)}", old)
    statements = body_list(scope.stmt.body)
    at = _place_alone(statements, old, leaf_of(ref))
    need_whole(state, ref)
    sizes = _padded_sizes(old, padding)
    if len(old.writes) != 1 or not isinstance(old.body, BufferStore):
        refuse("the body of {0} must be one store", old)
    target = old.writes[0].buffer
    _need_product(old, target, {iv.var for iv in old.iter_vars if sizes[iv.var] != iv.dom.extent})
    buffers: dict[Buffer, Buffer] = {}
    before: list[Stmt] = []
    after: list[Stmt] = []
    for region in (*[r for r in old.reads if r.buffer is not target], *old.writes):
        shape, buffer = _padded_shape(old, region, sizes), region.buffer
        if shape == [int(n) for n in buffer.shape]:
            continue
        new = buffers[buffer] = decl_buffer(shape, buffer.dtype, f"{buffer.name}_pad", scope=buffer.scope())
        if buffer is target:
            after.append(_copy_padded(state, new, target, target.shape, None))
        else:
            whole = [(ZERO, shift(state.forms.of(n), -1)) for n in buffer.shape]
            need_written(state, scope, statements[:at], buffer, whole, old)
            before.append(_copy_padded(state, buffer, new, new.shape, buffer.shape))
    if not buffers:
        return
    _need_regions(old)
    new_block, nest = _padded_nest(state, leaf_of(ref), sizes, buffers)
    body = with_statements(scope.stmt.body, [*statements[:at], *before, nest, *after, *statements[at + 1 :]])
    allocs = (*scope.stmt.alloc_buffers, *buffers.values())
    state.replace(scope, scope.stmt.replace(body=body, alloc_buffers=allocs), {old: new_block})


def _place_alone(statements: list[For], block: Block, leaf: Leaf) -> int:
    """The number of the statement that holds only the block, whose iteration variables must be loops."""
    loop_vars = {lp.loop_var for lp in leaf.loops}
    if any([not isinstance(v, Var) or v not in loop_vars for v in leaf.realize.iter_values]):
        refuse("each iteration variable of {0} must be bound to a loop of its own", block)
    at = next(i for i, st in enumerate(statements) if any([x.block is block for x in leaves(st)]))
    if len(leaves(statements[at])) != 1:
        refuse("the loops of {0} must hold nothing else", block)
    return at


def _padded_sizes(block: Any, padding: list[int]) -> dict[PrimExpr, int]:
    """The extents of iteration variables, rounded up to multiples of these numbers."""
    sizes: dict[PrimExpr, int] = {}
    for iv, n in zip(block.iter_vars, padding, strict=True):
        if not isinstance(iv.dom.extent, IntImm) or n <= 0:
            refuse(
                f"{iv.var.name} of {{0}} must have a constant extent and a positive padding, but has {iv.dom.extent} and {n}",
                block,
            )
        sizes[iv.var] = -(-iv.dom.extent.value // n) * n
    return sizes


def _padded_shape(block: Any, region: Any, sizes: Mapping[PrimExpr, int]) -> list[int]:
    """The padded shape of a buffer. Its region must be the whole buffer, with a variable of its own for each dimension."""
    for r in region.region:
        if not isinstance(r.min, Var) or r.min not in sizes:
            refuse(
                f"{{0}} must access {region.buffer.name} at plain iteration variables, but one index is {r.min}", block
            )
    indices = [r.min for r in region.region]
    if len(set(indices)) < len(indices):
        refuse("{0} must access each dimension of {1} at a variable of its own", block, region.buffer)
    extents = {iv.var: str(iv.dom.extent) for iv in block.iter_vars}
    shape = [str(n) for n in region.buffer.shape]
    if shape != [extents[v] for v in indices]:
        refuse(
            f"{{0}} must run over all of {{1}}, but its variables run to {[extents[v] for v in indices]}"
            f" and the shape is {shape}",
            block,
            region.buffer,
        )
    return [sizes[v] for v in indices]


def _padded_nest(
    state: ScheduleState, leaf: Leaf, sizes: Mapping[PrimExpr, int], buffers: dict[Any, Any]
) -> tuple[Any, Any]:
    """A block over padded extents and buffers, and the loops around it."""
    old = leaf.block
    iters: Any = tuple(
        [
            IterVar(Range.from_min_extent(iv.dom.min, IntImm(iv.var.dtype, sizes[iv.var])), iv.var, iv.iter_type)
            for iv in old.iter_vars
        ]
    )
    block = ReplaceBuffers(buffers).visit(old).replace(iter_vars=iters)
    nest: Any = leaf.realize.replace(block=block)
    extent_of = {v: sizes[iv.var] for iv, v in zip(old.iter_vars, leaf.realize.iter_values, strict=True)}
    for lp in reversed(leaf.loops):
        size = extent_of.get(lp.loop_var)
        nest = lp.replace(body=nest) if size is None else lp.replace(body=nest, extent=IntImm(lp.loop_var.dtype, size))
    for iv in iters:
        state.note_range(iv.var, iv.dom.min, iv.dom.extent)
    return block, nest


def _need_product(block: Block, target: Buffer, padded: set[Var]) -> None:
    """Require a sum of products, the only form to which zeros in the padding add nothing."""
    from tilewright.tir.schedule.facts.reducers import reducer_of

    for divisor in [e.b for e in nodes_of(block.body, BinaryOpExpr) if type(e) in DIVISIONS]:
        if divisor.dtype.element.code in ("int", "uint") and not (isinstance(divisor, IntImm) and divisor.value):
            refuse(f"{{0}} must not divide by what may be zero in the padding, but divides by {divisor}", block)
    indexed = {r.min for r in block.writes[0].region}
    for iv in block.iter_vars:
        if iv.iter_type != REDUCE and iv.var in padded and iv.var not in indexed:
            refuse(
                f"{iv.var.name} of {{0}} must index {{1}}: more values of it would write the same elements again",
                block,
                target,
            )
    if block.init is None:
        if any([r.buffer is target for r in block.reads]):
            refuse("{0} must not go on with what {1} holds", block, target)
        return
    combiner = reducer_of(block)
    start = combiner.identities[0]
    zero = isinstance(start, (IntImm, FloatImm)) and float(start.value) == 0.0
    reduced = {iv.var for iv in block.iter_vars if iv.iter_type == REDUCE} & padded
    if (
        not zero
        or not isinstance(combiner.values[0], Add)
        or not all([_vanishes(combiner.incoming[0], v) for v in reduced])
    ):
        refuse("{0} must be a sum of products into {1}, so that zeros change nothing", block, target)


def _need_regions(block: Any) -> None:
    """Require that the indices are those of the regions. A constant index for a variable of one value is kept."""
    regions = {r.buffer: [x.min for x in r.region] for r in (*block.reads, *block.writes)}
    accesses: list[Any] = [x for part in (block.body, block.init) for x in nodes_of(part, BufferLoad, BufferStore)]
    for x in accesses:
        if any([a is not b for a, b in zip(x.indices, regions.get(x.buffer, x.indices), strict=True)]):
            names = ", ".join([str(i) for i in x.indices])
            refuse("{0} must access {1} at plain iteration variables, but at " + names, block, x.buffer)


def _vanishes(e: PrimExpr, v: Var) -> bool:
    """Whether an expression is zero if its load at the variable is padding."""
    if isinstance(e, Mul):
        return _vanishes(e.a, v) or _vanishes(e.b, v)
    if isinstance(e, Cast):
        return _vanishes(e.value, v)
    return isinstance(e, BufferLoad) and any([i is v for i in e.indices])


def _copy_padded(state: ScheduleState, source: Any, new: Any, domain: Any, limit: tuple[IntImm, ...] | None) -> Any:
    """new[i] = source[i] over `domain`; 0 where an index reaches `limit`."""
    iter_vars = [Var(f"v{i}", n.dtype) for i, n in enumerate(domain)]
    loops = [Var(f"ax{i}", n.dtype) for i, n in enumerate(domain)]
    value: PrimExpr = BufferLoad(source, tuple(iter_vars))
    read = tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in iter_vars])
    if limit is not None:
        inside: Any = None
        for v, n, whole in zip(iter_vars, limit, domain, strict=True):
            if int(n) != int(whole):
                c = LT(v, n)
                inside = c if inside is None else And(inside, c)
        zero = FloatImm(source.dtype, 0.0) if source.dtype.is_float else IntImm(source.dtype, 0)
        if inside is not None:
            value = Call(source.dtype, Op.get("tir.if_then_else"), (inside, value, zero))
    iters = tuple(
        [
            IterVar(Range.from_min_extent(IntImm(v.dtype, 0), n), v, DATA_PAR)
            for v, n in zip(iter_vars, domain, strict=True)
        ]
    )
    block = Block(
        iters,
        (BufferRegion(source, read),),
        (BufferRegion(new, read),),
        new.name if limit is not None else f"{source.name}_crop",
        BufferStore(new, value, tuple(iter_vars)),
    )
    nest: Any = BlockRealize(tuple(loops), IntImm("bool", 1), block)
    for v, n in reversed(list(zip(loops, domain, strict=True))):
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest
