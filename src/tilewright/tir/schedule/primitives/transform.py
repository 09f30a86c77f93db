"""Primitives that change the layout of a buffer or the iterations of a block: transform_layout, transform_block_layout,
reindex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on
from tilewright.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IterVar,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.arguments import block_map, either, layout_map
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import alloc_site, need_simple_iters
from tilewright.tir.schedule.facts.certain import writes_exactly
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, conjuncts, leaf_of, leaves, scope_root
from tilewright.tir.schedule.facts.linear_forms import Forms, combine, same
from tilewright.tir.schedule.facts.point_effects import need_order_free
from tilewright.tir.schedule.facts.regions import swept
from tilewright.tir.schedule.facts.solve import solve
from tilewright.tir.schedule.index_map import IndexMap
from tilewright.tir.schedule.primitives.layout_padding import filler, filling_nest, nest_of, padding_nest, padding_place
from tilewright.tir.schedule.primitives.rewrite import (
    ReplaceStmts,
    RewriteAccesses,
    body_list,
    vars_in,
    with_statements,
)
from tilewright.tir.schedule.primitives.storage.cache import need_no_outer_init, need_written, top_statement
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


def _buffer_of(block: Block, argument: tuple[str, int]) -> tuple[str, Buffer]:
    kind, index = argument
    return kind, (block.writes if kind == "write" else block.reads)[index].buffer


def _checked(call: Any) -> Any:
    try:
        return call()
    except ValueError as error:
        refuse(str(error))


@recorded_as(layout_map)
def transform_layout(
    s: Schedule,
    block: BlockRV | str,
    buffer: Any,
    index_map: Any,
    pad_value: Any = None,
    assume_injective_transform: bool = False,
) -> None:
    """B[i] = f; C[j] = B[j]   -->   B[i // 4, i % 4] = f; C[j] = B[j // 4, j % 4]

    buffer: ("read" or "write", number), a name, or the buffer. index_map: an IndexMap or a function of the old indices.
    pad_value: the value of padding elements in the new layout, a number or a function of the new indices. None: the new
    layout must have no padding. The writer also writes the padding, if it is one
    store with its own loops; or else a block after it does. Of a parameter, the value is assumed.
    assume_injective_transform: check neither that elements get different places, nor the padding.
    """
    state = s.state
    ref = s.block(block)
    _, old = _buffer_of(ref.stmt, buffer)
    placed = _Placed(state, old, index_map)
    padding: Any = IntImm("bool", 0)
    inverse: Any = None
    if not assume_injective_transform:
        inverse, padding = _checked(lambda: index_map.non_surjective_inverse(old.shape))
    padded = not isinstance(padding, IntImm)
    if padded and pad_value is None:
        refuse(f"the new layout of {{0}} has padding (where {padding}), so pad_value must be given", old, ref.stmt)
    site = alloc_site(ref, old)
    if site is None and old not in state.function(state.function_of(ref)).buffer_map.values():
        refuse("{0} must be a parameter or allocated by a block, not a part of another buffer", old)
    site_ref = site if site is not None else state.roots[state.function_of(ref)]
    new = placed.buffer
    rewriter = RewriteAccesses(
        old,
        lambda x: BufferLoad(new, placed.at(x.indices)),
        lambda x: BufferStore(new, x.value, placed.at(x.indices)),
        placed.region,
    )
    body = rewriter.visit(site_ref.stmt.body)
    fills = filler(state, site_ref, old) if pad_value is not None and padded and site is not None else None
    if fills is not None:
        nest, filled = filling_nest(state, fills, new, padding, inverse, pad_value)
        moved = rewriter.reuse.pop(fills.block, fills.block)
        body = ReplaceStmts({id(nest_of(body, moved)): nest}).run(body)
        rewriter.reuse[fills.block] = filled
    elif pad_value is not None and padded:
        place, assumed = padding_place(site_ref.stmt.body, old, site is None)
        name = f"buffer_{new.name}_assumptions" if assumed else f"{new.name}_pad"
        nest = padding_nest(state, new, padding, inverse, pad_value, name, assumed)
        statements = body_list(body)
        body = with_statements(body, [*statements[:place], nest, *statements[place:]])
    allocs = tuple([new if b is old else b for b in site_ref.stmt.alloc_buffers])
    state.replace(site_ref, site_ref.stmt.replace(body=body, alloc_buffers=allocs), rewriter.reuse)
    if site is None:
        gvar = state.function_of(site_ref)
        func = state.function(gvar)
        state.set_function(
            gvar, func.replace(buffer_map={p: new if b is old else b for p, b in func.buffer_map.items()})
        )


class _Placed:
    """A buffer in the layout of an index map, with the new indices of its accesses and regions."""

    def __init__(self, state: ScheduleState, old: Buffer, mapping: IndexMap) -> None:
        self.forms, self.mapping = state.forms, mapping
        self.shape = mapping.map_shape(old.shape)
        self.buffer = decl_buffer(self.shape, old.dtype, old.name, scope=old.scope())

    def at(self, indices: Any) -> tuple[Any, ...]:
        forms, mapping = self.forms, self.mapping
        env = {v: forms.of(i) for v, i in zip(mapping.initial_indices, indices, strict=True)}
        return tuple(
            [forms.emit(forms.of(e, env), str(n.dtype)) for e, n in zip(mapping.final_indices, self.shape, strict=True)]
        )

    def region(self, r: Any) -> Any:
        if all([isinstance(x.extent, IntImm) and x.extent.value == 1 for x in r.region]):
            return _point(self.buffer, self.at([x.min for x in r.region]))
        forms = self.forms
        relaxed = {}
        for v, x in zip(self.mapping.initial_indices, r.region, strict=True):
            low = forms.of(x.min)
            relaxed[v] = (low, forms.of(x.min + x.extent - 1))
            bounds = forms.const_bounds(relaxed[v][0])[0], forms.const_bounds(relaxed[v][1])[1]
            forms.ranges[v] = bounds  # type: ignore[assignment]
        out = []
        for e, n in zip(self.mapping.final_indices, self.shape, strict=True):
            b = forms.bounds(forms.of(e), relaxed)
            dtype = str(n.dtype)
            if b is None:
                out.append(Range.from_min_extent(IntImm(dtype, 0), n))
            else:
                low_e, high_e = forms.emit(b[0], dtype), forms.emit(b[1], dtype)
                out.append(Range.from_min_extent(low_e, forms.simplify(high_e - low_e + 1)))
        return BufferRegion(self.buffer, tuple(out))


@recorded_as(block_map)
def transform_block_layout(s: Schedule, block: BlockRV | str, index_map: Any) -> None:
    """for i in 16: block(vi = i)   -->   for a in 4: for b in 4: block(va = a, vb = b) with vi := va * 4 + vb"""
    state, forms = s.state, s.state.forms
    ref = s.block(block)
    old = ref.stmt
    need_simple_iters(old)
    need_order_free(state, old)
    need_whole(state, ref)
    top = _own_nest(old, leaf_of(ref))
    extents: dict[Var, int] = {}
    for v, iv in zip(index_map.initial_indices, old.iter_vars, strict=True):
        if not isinstance(iv.dom.extent, IntImm):
            refuse(f"{iv.var.name} of {{0}} must have a constant domain", old)
        extents[v] = iv.dom.extent.value
        forms.ranges[v] = (0, extents[v] - 1)
    kinds = [_kind_of(state, old, index_map, e) for e in index_map.final_indices]
    new_vars = [Var(f"v{i}", "int32") for i in range(len(kinds))]
    sizes = index_map.map_shape([IntImm("int32", n) for n in extents.values()])
    for v, n in zip(new_vars, sizes, strict=True):
        state.note_range(v, IntImm("int32", 0), n)

    def no(why: str) -> NoReturn:
        refuse(f"the index map must have an inverse, but {why}", old)

    images = [(forms.of(e), forms.var(v)) for e, v in zip(index_map.final_indices, new_vars, strict=True)]
    solved, guards = solve(forms, images, extents, no)
    if guards:
        refuse(f"the index map must be one to one for {{0}}, but leaves gaps where not {guards[0]}", old)
    env = {
        iv.var: forms.emit(combine(solved[v], forms.of(iv.dom.min)), iv.var.dtype)
        for v, iv in zip(index_map.initial_indices, old.iter_vars, strict=True)
    }
    domains = [Range.from_min_extent(IntImm("int32", 0), n) for n in sizes]
    iters = tuple([IterVar(d, v, k) for d, v, k in zip(domains, new_vars, kinds, strict=True)])
    new = _Quotients(forms).visit(substitute(old, env)).replace(iter_vars=iters)
    loops = [Var(f"ax{i}", "int32") for i in range(len(kinds))]
    nest: Stmt = BlockRealize(tuple(loops), IntImm("bool", 1), new)
    for v, n in reversed(list(zip(loops, sizes, strict=True))):
        state.note_range(v, IntImm("int32", 0), n)
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    scope = scope_root(ref)
    body = ReplaceStmts({id(top): nest}).run(scope.stmt.body)
    state.replace(scope, scope.stmt.replace(body=body), {old: new})


class _Quotients(Mutator):
    """Simplifies quotients and remainders, which the domains of new variables may resolve."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms

    @on(FloorDiv, FloorMod)
    def _quotient(self, e: FloorDiv | FloorMod) -> PrimExpr:
        return self.forms.simplify(self.rebuild(e)) if e.dtype.lanes == 1 else self.rebuild(e)


def _own_nest(block: Block, leaf: Leaf) -> Any:
    """The statement that holds only the block and the loops to which its iteration variables are bound, one to one."""
    loop_vars = [lp.loop_var for lp in leaf.loops]
    for value in leaf.realize.iter_values:
        if not (isinstance(value, IntImm) and value.value == 0) and value not in loop_vars:
            refuse(f"each iteration variable of {{0}} must be bound to one loop, but one is bound to {value}", block)
    if conjuncts(leaf.realize.predicate):
        refuse("{0} must have no predicate", block)
    own = [lp for lp in leaf.loops if any([lp.loop_var is v for v in leaf.realize.iter_values])]
    if not own:
        return leaf.realize
    if len(leaves(own[0])) != 1 or own != list(leaf.loops[leaf.loops.index(own[0]) :]):
        refuse("the loops of {0} must hold nothing else", block)
    return own[0]


def _kind_of(state: ScheduleState, block: Block, mapping: IndexMap, e: PrimExpr) -> int:
    """The kind of the iteration variables in an expression of an index map."""
    used = state.forms.leaves(state.forms.of(e))
    found = {iv.iter_type for v, iv in zip(mapping.initial_indices, block.iter_vars, strict=True) if v in used}
    if len(found) > 1:
        refuse(f"{e} must not mix spatial and reduction variables of {{0}}", block)
    return found.pop() if found else DATA_PAR


@recorded_as(either)
def reindex(s: Schedule, block: BlockRV | str, buffer: Any) -> BlockRV:
    """C[i, j] += A[i + j, 0]   -->   A_reindex[i, j] = A[i + j, 0];  C[i, j] += A_reindex[i, j]

    The indices of the new buffer are the block's iteration variables that occur in the access. For a buffer that the
    block writes, the copy is inserted after the block. Returns the copying block.
    """
    ref = s.block(block)
    kind, old = _buffer_of(ref.stmt, buffer)
    return s.block_rv(reindex_buffer(s.state, ref, kind, old, f"{old.name}_reindex", None))


class _Staged(NamedTuple):
    """The form in which a staged buffer holds one access of a block: iteration variables, indices over these, and shape."""

    iters: list[Any]
    at: list[Any]
    shape: list[Any]


def reindex_buffer(
    state: ScheduleState,
    ref: StmtSRef,
    kind: str,
    old: Buffer,
    name: str,
    chosen: IndexMap | None,
    storage_scope: str | None = None,
) -> StmtSRef:
    """Stage one access of a block in a buffer that is indexed by its iteration variables (or by `chosen`, indices over
    them).
    """
    block = ref.stmt
    indices = _indices_of(state, block, old)
    scope = scope_root(ref)
    used = _indexing_variables(state, scope, block, old, indices)
    if kind == "write" and any([iv.var in used and iv.iter_type != DATA_PAR for iv in block.iter_vars]):
        refuse("{1} must write {0} at indices of spatial variables", old, block)
    staged = _staged(state, block, old, used, chosen)
    statements = body_list(scope.stmt.body)
    place = top_statement(scope.stmt, block) + (kind == "write")
    if kind == "read":
        _need_complete_before(state, scope, statements, place, old, ref)
    else:
        _need_written_alone(state, scope, statements[:place], old, ref)
    new = decl_buffer(staged.shape, old.dtype, name, scope=storage_scope or old.scope())
    new_block = RewriteAccesses(
        old,
        lambda x: BufferLoad(new, tuple(staged.at)),
        lambda x: BufferStore(new, x.value, tuple(staged.at)),
        lambda r: _point(new, staged.at),
    ).visit(block)
    copier, nest = _copying_nest(state, block, kind, (old, indices), (new, staged))
    realize = leaf_of(ref).realize
    statements = body_list(ReplaceStmts({id(realize): realize.replace(block=new_block)}).run(scope.stmt.body))
    body = with_statements(scope.stmt.body, [*statements[:place], nest, *statements[place:]])
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, new))
    state.replace(scope, new_scope, {block: new_block})
    return state.ref(copier)


def _indices_of(state: ScheduleState, block: Block, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The indices at which a block accesses a buffer. All accesses must have the same ones."""
    accesses: list[tuple[PrimExpr, ...]] = []

    def note(x: BufferLoad | BufferStore) -> PrimExpr | Stmt:
        accesses.append(x.indices)
        return x

    RewriteAccesses(buffer, note, note).visit(block)
    if not accesses:
        refuse("{1} must access {0} in its own body", buffer, block)
    for indices in accesses[1:]:
        if not all([same(state.forms.of(a), state.forms.of(i)) for a, i in zip(accesses[0], indices, strict=True)]):
            refuse("all accesses of {0} in {1} must have the same indices", buffer, block)
    return accesses[0]


def _indexing_variables(
    state: ScheduleState, scope: StmtSRef, block: Block, buffer: Buffer, indices: tuple[PrimExpr, ...]
) -> set[Var]:
    """The variables in the indices of an access to stage. They must be iteration variables that stay inside the buffer, of a block in the
    function's own scope."""
    forms = state.forms
    found = [forms.of(i) for i in indices]
    used: set[Var] = {v for i in indices for v in vars_in(i)}
    for f in found:
        used |= forms.leaves(f)
    if not used <= {iv.var for iv in block.iter_vars}:
        refuse("{1} must access {0} at indices of its own iteration variables", buffer, block)
    if scope.parent is not None:
        # The copy covers all of the domain, but the block around may read and write less.
        refuse("{1} must stand in the function's own scope, but is in {2}", buffer, block, scope.stmt)
    for index, dim in zip(found, buffer.shape, strict=True):
        if not forms.inside(block.iter_vars, index, dim):
            refuse(
                f"{{1}} must access {{0}} inside its bounds for all of its points, but one index is {forms.emit(index)}",
                buffer,
                block,
            )
    return used


def _staged(state: ScheduleState, block: Any, buffer: Any, used: set[Var], chosen: Any) -> _Staged:
    """The form of the staged buffer: indexed by the variables in use, or by the index map `chosen`. Its indices begin at 0, even if the
    variables do not."""
    forms = state.forms
    own = [iv for iv in block.iter_vars if iv.var in used]
    from_zero = {iv.var: forms.simplify(iv.var - iv.dom.min) for iv in block.iter_vars}
    if chosen is None:
        return _Staged(own, [from_zero[iv.var] for iv in own], [iv.dom.extent for iv in own])
    env = dict(zip(chosen.initial_indices, [from_zero[iv.var] for iv in block.iter_vars], strict=True))
    at = [substitute(e, env) for e in chosen.final_indices]
    shape = chosen.map_shape([iv.dom.extent for iv in block.iter_vars])
    named: set[Any] = set()
    for e in at:
        named |= forms.leaves(forms.of(e))
    if not {iv.var for iv in own if forms.ranges.get(iv.var) != (0, 0)} <= named:
        refuse("the index map must use all variables that index {0} in {1}", buffer, block)
    if not {v for v in named if forms.ranges.get(v) != (0, 0)} <= used:
        refuse("the index map must use only variables that index {0} in {1}", buffer, block)
    at = [substitute(e, {iv.var: iv.dom.min for iv in block.iter_vars if iv.var not in used}) for e in at]
    return _Staged(own, at, shape)


def _copying_nest(
    state: ScheduleState,
    block: Any,
    kind: str,
    access: tuple[Buffer, tuple[PrimExpr, ...]],
    stage: tuple[Buffer, _Staged],
) -> tuple[Stmt, Stmt]:
    """(block, loops around it) that copy between a buffer, at the indices of an access, and its staged form."""
    forms = state.forms
    old, indices = access
    new, staged = stage
    iter_vars = [Var(iv.var.name, iv.var.dtype) for iv in staged.iters]
    env = {iv.var: v for iv, v in zip(staged.iters, iter_vars, strict=True)}
    env = {**{iv.var: iv.dom.min for iv in block.iter_vars if iv.var not in env}, **env}
    there = old, tuple([substitute(forms.emit(forms.of(i), i.dtype), env) for i in indices])
    here = new, tuple([substitute(i, env) for i in staged.at])
    source, target = (there, here) if kind == "read" else (here, there)
    copier = Block(
        tuple([IterVar(iv.dom, v, DATA_PAR) for iv, v in zip(staged.iters, iter_vars, strict=True)]),
        (_point(*source),),
        (_point(*target),),
        new.name,
        BufferStore(target[0], BufferLoad(*source), target[1]),
    )
    loops = [Var(f"ax{i}", v.dtype) for i, v in enumerate(iter_vars)]
    values = [forms.simplify(v + iv.dom.min) for v, iv in zip(loops, staged.iters, strict=True)]
    nest: Stmt = BlockRealize(tuple(values), IntImm("bool", 1), copier)
    for v, iv in reversed(list(zip(loops, staged.iters, strict=True))):
        state.note_range(v, IntImm(v.dtype, 0), iv.dom.extent)
        nest = For(v, 0, iv.dom.extent, ForKind.SERIAL, nest)
    return copier, nest


def _need_complete_before(
    state: ScheduleState, scope: StmtSRef, statements: list[Stmt], place: int, old: Any, ref: StmtSRef
) -> None:
    """Require that a buffer is complete before the statement `place`, in which a block reads it."""
    block = ref.stmt
    if any([r.buffer is old for r in block.writes]):
        refuse("{0} must only read {1}, but writes it too", block, old)
    _need_copied_written(state, scope, statements[:place], old, block, leaf_of(ref))
    for st in statements[place:]:
        for x in leaves(st):
            if any([r.buffer is old for r in x.block.writes]):
                refuse("{0} must be complete before the loops of {1}, but {2} writes it there", old, block, x.block)


def _need_written_alone(state: ScheduleState, scope: StmtSRef, upto: list[Stmt], old: Any, ref: StmtSRef) -> None:
    """Require that a block writes its elements of a buffer by itself, and that nothing uses them in the statements up to it."""
    block = ref.stmt
    need_whole(state, ref)
    need_order_free(state, block)
    if not writes_exactly(state, block, old):
        refuse("{0} must certainly write the region that it declares of {1}", block, old)
    if block.init is None and any([r.buffer is old for r in block.reads]):
        refuse("{0} must not go on with what {1} holds", block, old)
    need_no_outer_init(scope.stmt, old)
    for st in upto:
        for x in leaves(st):
            if x.block is not block and any([r.buffer is old for r in (*x.block.reads, *x.block.writes)]):
                refuse("{0} must be the only block that uses {1} in its loops", block, old)


def _need_copied_written(
    state: ScheduleState, scope: StmtSRef, before: list[Stmt], old: Buffer, block: Any, leaf: Leaf
) -> None:
    """Require that all elements in a block's domain are written, even those that no iteration reads, since the copy covers
    the whole domain.
    """
    loops = tuple([For(iv.var, iv.dom.min, iv.dom.extent, ForKind.SERIAL, block.body) for iv in block.iter_vars])
    everywhere = Leaf(leaf.realize.replace(iter_values=tuple([iv.var for iv in block.iter_vars])), loops)
    for r in block.reads:
        if r.buffer is old:
            need_written(state, scope, before, old, swept(state, r, everywhere, loops), block)


def need_whole(state: ScheduleState, ref: StmtSRef) -> None:
    """Require that the block visits each of its points once, so that a copy of its output is complete."""
    binding = binding_of(state, leaf_of(ref))
    if not binding.covers:
        refuse(f"{{0}} must compute all of its points, but {binding.reason}", ref.stmt)


def _point(buffer: Buffer, indices: list[Var] | tuple[PrimExpr, ...]) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(i, IntImm(str(i.dtype), 1)) for i in indices]))
