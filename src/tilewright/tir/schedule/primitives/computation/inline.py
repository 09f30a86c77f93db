"""Primitives that inline a block into its consumer or producer: compute_inline and reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Mutator, on
from tilewright.tir import Block, Buffer, BufferLoad, BufferStore, Var
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import conflict, consumers, need_complete, producers
from tilewright.tir.schedule.facts.certain import reaches_domain
from tilewright.tir.schedule.facts.hazards import need_settled
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    Leaf,
    conjunction,
    conjuncts,
    leaf_of,
    scope_leaves,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import combine, same, shift
from tilewright.tir.schedule.facts.regions import access_regions
from tilewright.tir.schedule.facts.solve import solve
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, RewriteAccesses, need_no_pointer, touches
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import BufferRegion
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


def _only_store(block: Block) -> BufferStore:
    if not isinstance(block.body, BufferStore) or block.init is not None:
        refuse("the body of {0} must be one plain store", block)
    if block.match_buffers:
        refuse("{0} must not view {1} through a match_buffer", block, block.match_buffers[0].source.buffer)
    return block.body


def _need_inner_buffer(scope: StmtSRef, block: Block, buffer: Buffer) -> None:
    if buffer not in scope.stmt.alloc_buffers:
        refuse("{0} must write a buffer that only this scope uses, but {1} is an output of it", block, buffer)


class _Inline(Mutator):
    """Replaces loads of the producer's buffer by its value, and recomputes the reads of changed blocks."""

    def __init__(self, state: ScheduleState, buffer: Buffer, variables: Sequence[Var | None], value: PrimExpr) -> None:
        self.state, self.buffer, self.variables, self.value = state, buffer, variables, value
        self.wanted = {buffer}
        self.reuse: dict[Any, Any] = {}

    @on(Var)
    def _var(self, v: Var) -> Var:
        return need_no_pointer(v, self.buffer)

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Buffer:
        return b

    @on(BufferLoad)
    def _load(self, x: BufferLoad) -> PrimExpr:
        new = self.rebuild(x)
        if x.buffer is not self.buffer:
            return new
        pairs = zip(self.variables, new.indices, strict=True)
        return substitute(self.value, {v: cast_to(i, v.dtype) for v, i in pairs if v is not None})

    @on(Block)
    def _block(self, x: Block) -> Block:
        if not touches(x, self.wanted):
            return x
        if any([m.source.buffer is self.buffer for m in x.match_buffers]):
            refuse("{0} views {1} through a match_buffer, so it cannot be inlined there", x, self.buffer)
        body, init = self.visit(x.body), None if x.init is None else self.visit(x.init)
        allocs = tuple([b for b in x.alloc_buffers if b is not self.buffer])
        new = x.replace(
            body=body, init=init, alloc_buffers=allocs if len(allocs) != len(x.alloc_buffers) else x.alloc_buffers
        )
        if any([r.buffer is self.buffer for r in x.reads]):
            new = new.replace(reads=merged_reads(self.state, x, new, self.buffer))
        if new is not x:
            self.reuse[x] = new
        return new


def merged_reads(state: ScheduleState, old: Block, new: Block, gone: Buffer) -> tuple[BufferRegion, ...]:
    """Regions for the reads of the new body. Declared regions of buffers that were read before are kept."""
    reads, writes = access_regions(state, new.body, new.init, new)
    if old.init is None:
        own = {r.buffer for r in old.writes} - {r.buffer for r in old.reads}
    else:
        own = {r.buffer for r in writes}
    known = {r.buffer: r for r in old.reads if r.buffer is not gone}
    fresh = {r.buffer: r for r in reads if r.buffer not in own}
    out = [r for b, r in known.items() if b not in fresh]
    return (*out, *fresh.values())


@primitive
def compute_inline(s: Schedule, block: BlockRV | str) -> None:
    """for i: B[i] = f(A[i]);  for j: C[j] = g(B[j])   -->   for j: C[j] = g(f(A[j]))"""
    inline_block(s.state, s.block(block))


def inline_block(state: ScheduleState, ref: StmtSRef) -> None:
    old = ref.stmt
    store = _only_store(old)
    scope = scope_root(ref)
    buffer = store.buffer
    need_complete(state, ref)
    _need_inner_buffer(scope, old, buffer)
    variables: list[Any] = []
    own = {iv.var: iv for iv in old.iter_vars}
    for i, dim in zip(store.indices, buffer.shape, strict=True):
        if isinstance(i, Var) and i in own and i not in variables:
            variables.append(i)
        elif isinstance(i, IntImm) and i.value == 0 and isinstance(dim, IntImm) and dim.value == 1:
            variables.append(None)
        else:
            refuse(f"the indices of the store in {{0}} must be distinct iteration variables, but one is {i}", old)
    for iv in old.iter_vars:
        if iv.var not in variables and not (isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value == 1):
            refuse(
                f"the store in {{0}} must be indexed by all its iteration variables, but {iv.var.name} is missing", old
            )
    value = substitute(store.value, {iv.var: iv.dom.min for iv in old.iter_vars if iv.var not in variables})
    leaf = leaf_of(ref)
    _need_full(state, leaf)
    users = consumers(ref)
    if not users:
        refuse("{0} must have a consumer to be inlined into, but has none", old)
    _need_inputs_unchanged(ref, old, users)
    need_settled(state, ref, leaf, set())
    rewriter = _Inline(state, buffer, variables, value)
    body = ReplaceStmts({id(leaf.realize): None}).run(scope.stmt.body)
    new_scope = scope.stmt.replace(
        body=rewriter.visit(body), alloc_buffers=tuple([b for b in scope.stmt.alloc_buffers if b is not buffer])
    )
    state.replace(scope, new_scope, rewriter.reuse)


def _need_full(state: ScheduleState, leaf: Leaf) -> None:
    """Require that the block computes its whole domain. A complete block can compute points twice."""
    binding = binding_of(state, leaf)
    if not binding.covers and binding.reason.startswith("its predicate"):
        refuse(f"{{0}} must compute its whole domain, but {binding.reason}", leaf.block)


def _need_inputs_unchanged(ref: StmtSRef, block: Block, users: list[Leaf]) -> None:
    inputs = {r.buffer for r in block.reads}
    last = users[-1].block
    seen = False
    for leaf in scope_leaves(ref):
        if leaf.block is block:
            seen = True
        elif seen:
            for r in leaf.block.writes:
                if r.buffer in inputs:
                    refuse(
                        "the inputs of {0} must not change before its last use, but {1} writes {2}",
                        block,
                        leaf.block,
                        r.buffer,
                    )
            if leaf.block is last:
                return


@primitive
def reverse_compute_inline(s: Schedule, block: BlockRV | str) -> None:
    """for i: B[i] = f(A[i]);  for j: C[j] = g(B[j])   -->   for i: C[i] = g(f(A[i]))"""
    reverse_inline_block(s.state, s.block(block))


def reverse_inline_block(state: ScheduleState, ref: StmtSRef) -> None:
    old = ref.stmt
    store = _only_store(old)
    scope = scope_root(ref)
    need_complete(state, ref)
    written = {b for leaf in scope_leaves(ref) for b in [r.buffer for r in leaf.block.writes]}
    inputs = [r.buffer for r in old.reads if r.buffer in written]
    sources = producers(ref)
    if len(inputs) != 1 or len(sources) != 1:
        names = sorted({leaf.block.name_hint for leaf in sources})
        refuse(f"{{0}} must read exactly one block's output, but reads those of {names}", old)
    buffer, source = inputs[0], sources[0]
    source_ref = state.ref(source.block)
    _need_inner_buffer(scope, source.block, buffer)
    need_complete(state, source_ref)
    if [leaf.block for leaf in consumers(source_ref)] != [old]:
        refuse("{0} must be the only consumer of {1}", old, source.block)
    source_store = _only_store(source.block)
    if not reaches_domain(state, leaf_of(ref)):
        refuse("{0} must visit every point of its domain, but its loops may omit some", old)
    if not reaches_domain(state, source):
        # The consumer may compute elements that the producer does not write.
        refuse("{0} must visit every point of its domain, but its loops may omit some", source.block)
    _need_nothing_between(ref, source.block)
    loads: list[BufferLoad] = []

    def note(x: BufferLoad) -> BufferLoad:
        loads.append(x)
        return x

    RewriteAccesses(buffer, note).visit(store.value)
    _need_inputs_unchanged(source_ref, source.block, [leaf_of(ref)])
    other = {r.buffer for r in old.reads} - {buffer}
    if other & {r.buffer for r in source.block.writes}:
        refuse("{0} must not read another output of {1}", old, source.block)
    env, guards = invert_access(state, old, loads, source.block, source_store.indices)
    final = RewriteAccesses(buffer, lambda _: source_store.value).visit(substitute(store, env))
    final = _canonical_indices(state, final)
    reads, writes = access_regions(state, final)
    new = source.block.replace(body=final, reads=reads, writes=writes)
    realize = source.realize
    if guards:
        bindings = {iv.var: v for iv, v in zip(source.block.iter_vars, realize.iter_values, strict=True)}
        realize = realize.replace(
            predicate=conjunction([*conjuncts(realize.predicate), *[substitute(g, bindings) for g in guards]])
        )
    body = ReplaceStmts({id(leaf_of(ref).realize): None, id(source.realize): realize.replace(block=new)}).run(
        scope.stmt.body
    )
    left = tuple([b for b in scope.stmt.alloc_buffers if b is not buffer])
    state.replace(scope, scope.stmt.replace(body=body, alloc_buffers=left), {source.block: new})


def _need_nothing_between(ref: StmtSRef, source: Stmt) -> None:
    """Require that no block between the producer and its consumer, or in loops around both, uses the consumer's output."""
    old = ref.stmt
    seen = False
    for leaf in scope_leaves(ref):
        if leaf.block is old:
            return
        if seen and conflict(leaf.block, old):
            refuse("{0} depends on {1}, which is between it and {2}", old, leaf.block, source)
        seen = seen or leaf.block is source


def _canonical_indices(state: ScheduleState, store: Any) -> Any:
    return store.replace(indices=tuple([state.forms.simplify(i) for i in store.indices]))


def invert_access(
    state: ScheduleState, consumer: Any, loads: list[Any], producer: Any, stored: tuple[Any, ...]
) -> tuple[Mapping[Var, PrimExpr], Sequence[PrimExpr]]:
    """The consumer's iteration variables as functions of the producer's, from `B[stored] = ...; ... = B[loaded]`.

    Supported are `v`, `v + c`, mixed-radix numbers `v0 * n + v1`, and digits `v // n`, `v % n`. Also returns the
    conditions under which the consumer has a point for a point of the producer.
    """
    forms = state.forms
    if not loads:
        refuse("{0} must load what {1} stores", consumer, producer)
    # Solved for numbers that start at 0; the variables may start elsewhere.
    numbers = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in consumer.iter_vars}
    shifted = {}
    for iv in consumer.iter_vars:
        state.note_range(numbers[iv.var], IntImm(iv.var.dtype, 0), iv.dom.extent)
        shifted[iv.var] = combine(forms.var(numbers[iv.var]), forms.of(iv.dom.min))
    first = [forms.of(i) for i in loads[0].indices]
    for other in loads[1:]:
        for a, b in zip(first, other.indices, strict=True):
            if not same(a, forms.of(b)):
                refuse("all loads in {0} of what {1} stores must have the same indices", consumer, producer)
    for iv in consumer.iter_vars:
        if iv.iter_type != DATA_PAR:
            refuse("{0} must be data parallel", consumer)
    extents = {numbers[iv.var]: iv.dom.extent for iv in consumer.iter_vars}

    def no(why: str) -> NoReturn:
        refuse(f"{{0}} must read {{1}} at indices that can be solved for its variables, but {why}", consumer, producer)

    own = {iv.var: iv.dom.extent for iv in producer.iter_vars}
    for index, at, dim in zip(first, stored, loads[0].buffer.shape, strict=True):
        if not forms.inside(consumer.iter_vars, index, dim):
            no(f"{forms.emit(index)} leaves the buffer")
        high, last = forms.const_bounds(index)[1], forms.const_bounds(shift(forms.of(dim), -1))[0]
        if not (isinstance(at, Var) and at in own and same(forms.of(own[at]), forms.of(dim))) and not (
            high == 0 and last == 0
        ):
            no(f"{producer.name_hint} does not write the whole buffer")

    analyzer = Analyzer()
    for iv in producer.iter_vars:
        analyzer.bind(iv.var, iv.dom)
    equations = [(forms.of(i, shifted), forms.of(at)) for i, at in zip(loads[0].indices, stored, strict=True)]
    solved, guards = solve(forms, equations, extents, no, analyzer.can_prove)
    env = {
        iv.var: forms.emit(combine(solved[numbers[iv.var]], forms.of(iv.dom.min)), iv.var.dtype)
        for iv in consumer.iter_vars
    }
    return env, guards
