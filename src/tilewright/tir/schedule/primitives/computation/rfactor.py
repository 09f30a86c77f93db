"""rfactor: divides a reduction into two steps. The first computes partial results, which can be parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import PrimExpr, Range
from tilewright.tir import Block, BlockRealize, BufferLoad, BufferStore, For, ForKind, IterVar, Var, decl_buffer
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import need_complete_or_reduction
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    REDUCE,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import Lin, combine
from tilewright.tir.schedule.facts.reducers import Reducer, reducer_of
from tilewright.tir.schedule.facts.regions import access_regions
from tilewright.tir.schedule.primitives.copies import renewed_thread
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, vars_in
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import LetStmt, SeqStmt, Stmt


@primitive
def rfactor(s: Schedule, loop: LoopRV, factor_axis: int) -> BlockRV:
    """for k in n: C[] += A[k]   -->   for k in n: C_rf[k] = A[k];  for k in n: C[] += C_rf[k]

    Each iteration of the given loop gets a partial result. These are stored in a buffer with one more dimension, number
    `factor_axis`. Returns the block that computes the partial results; the old block combines them. Split a loop first
    to get fewer partial results. A reduction of several buffers (argmax) gets a buffer of partial results for each.
    """
    state = s.state
    return s.block_rv(_RFactor(state, s.loop(loop), factor_axis).run())


class _RFactor:
    def __init__(self, state: ScheduleState, loop_ref: StmtSRef, factor_axis: int) -> None:
        self.state, self.loop = state, loop_ref.stmt
        found = leaves(self.loop.body)
        self.scope = scope_root(loop_ref)
        if len(found) != 1:
            refuse("{0} must hold exactly one block", self.loop)
        old = self.old = found[0].block
        ref = state.ref(old)
        need_complete_or_reduction(state, ref)
        if old.init is None:
            refuse("{0} must be a reduction with an initialisation", old)
        if old.match_buffers or old.alloc_buffers:
            refuse("{0} must not view or allocate buffers", old)
        self.leaf = leaf_of(ref)
        self.binding = binding_of(state, self.leaf)
        if not self.binding.covers and not self.binding.predicated:
            refuse(f"{{0}} must visit each of its points exactly once, but {self.binding.reason}", old)
        if not self.binding.injective or self.binding.repeats or self.binding.gaps:
            refuse(f"{{0}} must visit each of its points exactly once, but {self.binding.reason}", old)
        if self.binding.uses.get(self.loop.loop_var) != {REDUCE}:
            refuse("{0} must be a reduction loop of {1}", self.loop, old)
        self.reducer: Reducer = reducer_of(old)
        self.top = self._top()
        rank = len(self.reducer.stores[0].indices)
        if any([len(x.indices) != rank for x in self.reducer.stores]):
            refuse("the outputs of {0} must have the same number of dimensions", old)
        axis = factor_axis if factor_axis >= 0 else factor_axis + rank + 1
        if not 0 <= axis <= rank:
            refuse(
                f"factor_axis must be from {-rank - 1} to {rank} for {{0}}, but is {factor_axis}",
                self.reducer.stores[0].buffer,
            )
        self.axis = axis
        self.reduce_loops = [lp for lp in self.leaf.loops if REDUCE in self.binding.uses.get(lp.loop_var, ())]
        for lp in self.reduce_loops:
            if self.binding.uses[lp.loop_var] != {REDUCE}:
                refuse("{0} must drive only reduction variables of {1}", lp, old)
            if self.leaf.loops.index(lp) < self.top:
                refuse("{0} holds other blocks than {1}, so its reduction cannot be split in two", lp, old)
        outer = {lp.loop_var for lp in self.leaf.loops[: self.top]}
        extents: set[Any] = set()
        for lp in self.leaf.loops[self.top :]:
            extents |= vars_in(lp.extent) | vars_in(lp.min)
        if extents & ({lp.loop_var for lp in self.leaf.loops} - outer):
            refuse("the loops of {0} must not run to values of each other", old)
        self._split_predicate()
        self.partial = [
            decl_buffer(
                [*x.buffer.shape[:axis], self.loop.extent, *x.buffer.shape[axis:]],
                x.buffer.dtype,
                f"{x.buffer.name}_rf",
                scope=x.buffer.scope(),
            )
            for x in self.reducer.stores
        ]

    def _top(self) -> int:
        """The number of the outermost loop that contains only the block and loops."""
        for i, lp in enumerate(self.leaf.loops):
            if len(leaves(lp)) == 1:
                return i
        return len(self.leaf.loops)

    def _split_predicate(self) -> None:
        """Divide the predicate: conditions over spatial loops hold for both blocks; others must keep the first step of
        each partial result.
        """
        forms = self.state.forms
        reduced = {lp.loop_var for lp in self.reduce_loops}
        spatial = {lp.loop_var for lp in self.leaf.loops} - reduced
        first = {lp.loop_var: forms.of(lp.min) for lp in self.reduce_loops if lp is not self.loop}
        self.predicate = conjuncts(self.leaf.realize.predicate)
        self.spatial_predicate = []
        for c in self.predicate:
            used = vars_in(c)
            if used.isdisjoint(reduced):
                self.spatial_predicate.append(c)
                continue
            d: Lin | None = None
            if hasattr(c, "a") and type(c).__name__ == "LT":
                d = combine(forms.of(c.a, first), forms.of(c.b, first), -1)
            high = None if d is None else forms.const_bounds(d)[1]
            if used & spatial or high is None or high >= 0:
                refuse(
                    f"the predicate {c} of {{0}} must leave something to do in every iteration of {{1}}",
                    self.old,
                    self.loop,
                )

    def run(self) -> StmtSRef:
        first, rf_block = self._partial_nest()
        second, final = self._final_nest()
        loops = self.leaf.loops
        state = self.state
        target = loops[self.top]
        body = ReplaceStmts({id(target): seq_of([first, second])}).run(self.scope.stmt.body)
        allocs = (*self.scope.stmt.alloc_buffers, *self.partial)
        state.replace(self.scope, self.scope.stmt.replace(body=body, alloc_buffers=allocs), {self.old: final})
        return state.ref(rf_block)

    def _partial_nest(self) -> tuple[Any, Any]:
        """The loops around the block of partial results, with one more spatial variable for the given loop."""
        state, loop_var = self.state, self.loop.loop_var
        factor = Var(f"v{loop_var.name}", loop_var.dtype)
        of_loop: dict[Any, Any] = {loop_var: factor}
        rest = [lp for lp in self.reduce_loops if lp is not self.loop]
        for lp in rest:
            of_loop[lp.loop_var] = Var(f"v{lp.loop_var.name}", lp.loop_var.dtype)
        iters: list[Any] = [IterVar(Range.from_min_extent(self.loop.min, self.loop.extent), factor, DATA_PAR)]
        values: list[Any] = [loop_var]
        env: dict[Any, Any] = {}
        for iv, value in zip(self.old.iter_vars, self.leaf.realize.iter_values, strict=True):
            if iv.iter_type == DATA_PAR:
                env[iv.var] = Var(iv.var.name, iv.var.dtype)
                iters.append(IterVar(iv.dom, env[iv.var], DATA_PAR))
                values.append(value)
            else:
                env[iv.var] = substitute(value, of_loop)
        for lp in rest:
            iters.append(IterVar(Range.from_min_extent(lp.min, lp.extent), of_loop[lp.loop_var], REDUCE))
            values.append(lp.loop_var)
        for iv in iters:
            state.note_range(iv.var, iv.dom.min, iv.dom.extent)
        at = [self._at([substitute(i, env) for i in x.indices], factor) for x in self.reducer.stores]
        own = [BufferLoad(b, i) for b, i in zip(self.partial, at, strict=True)]
        incoming = [substitute(e, env) for e in self.reducer.incoming]
        body, init = self._stores(self.partial, at, own, incoming, env)
        block = self._block(iters, body, init, self.old.name_hint + "_rf", self.partial)
        realize = BlockRealize(tuple(values), conjunction(self.predicate), block)
        return ReplaceStmts({id(self.leaf.realize): realize}).run(self.leaf.loops[self.top]), block

    def _final_nest(self) -> tuple[Any, Any]:
        """New loops over the spatial ones and the given one, around the block that combines the partial results."""
        state, loop_var = self.state, self.loop.loop_var
        copies: dict[Any, Any] = {}
        kept: list[Any] = []
        for lp in self.leaf.loops[self.top :]:
            if lp is self.loop or lp not in self.reduce_loops:
                copies[lp.loop_var] = Var(lp.loop_var.name, lp.loop_var.dtype)
                state.note_range(copies[lp.loop_var], lp.min, lp.extent)
                kept.append(lp)
        reduce = Var(f"v{loop_var.name}", loop_var.dtype)
        iters: list[Any] = [IterVar(Range.from_min_extent(self.loop.min, self.loop.extent), reduce, REDUCE)]
        values: list[Any] = [copies[loop_var]]
        env: dict[Any, Any] = {}
        for iv, value in zip(self.old.iter_vars, self.leaf.realize.iter_values, strict=True):
            if iv.iter_type == DATA_PAR:
                env[iv.var] = Var(iv.var.name, iv.var.dtype)
                iters.append(IterVar(iv.dom, env[iv.var], DATA_PAR))
                values.append(substitute(value, copies))
        for iv in iters:
            state.note_range(iv.var, iv.dom.min, iv.dom.extent)
        at = [tuple([substitute(i, env) for i in x.indices]) for x in self.reducer.stores]
        outputs = [x.buffer for x in self.reducer.stores]
        own = [BufferLoad(b, i) for b, i in zip(outputs, at, strict=True)]
        partial = [BufferLoad(b, self._at(list(i), reduce)) for b, i in zip(self.partial, at, strict=True)]
        body, init = self._stores(outputs, at, own, partial, env)
        block = self._block(iters, body, init, self.old.name_hint, outputs).replace(annotations=self.old.annotations)
        predicate = conjunction([substitute(c, copies) for c in self.spatial_predicate])
        nest: Any = BlockRealize(tuple(values), predicate, block)
        for lp in reversed(kept):
            bound = lp.kind == ForKind.THREAD_BINDING
            nest = For(
                copies[lp.loop_var], lp.min, lp.extent, lp.kind if bound else ForKind.SERIAL, nest,
                renewed_thread(lp.thread_binding) if bound else None, span=lp.span,
            )  # fmt: skip
        return nest, block

    def _at(self, indices: list[PrimExpr], factor: Var) -> tuple[PrimExpr, ...]:
        number = self.state.forms.simplify(factor - self.loop.min)
        return (*indices[: self.axis], number, *indices[self.axis :])

    def _stores(
        self, buffers: list[Buffer], at: Any, own: list[BufferLoad], incoming: Any, env: Any
    ) -> tuple[BufferStore | LetStmt, BufferStore | SeqStmt]:
        """The update and the initialisation. The values of several buffers are computed before the first store."""
        values = self.reducer.combine(own, incoming)
        identities = [substitute(e, env) for e in self.reducer.identities]
        init = seq_of([BufferStore(b, e, i) for b, e, i in zip(buffers, identities, at, strict=True)])
        if len(values) == 1:
            return BufferStore(buffers[0], values[0], at[0]), init
        from tilewright.tir import LetStmt

        names = [Var(f"v_{b.name}", b.dtype) for b in buffers]
        body = seq_of([BufferStore(b, v, i) for b, v, i in zip(buffers, names, at, strict=True)])
        for v, e in reversed(list(zip(names, values, strict=True))):
            body = LetStmt(v, e, body)
        return body, init

    def _block(self, iters: Sequence[IterVar], body: Stmt, init: Stmt, name: str, outputs: list[Buffer]) -> Block:
        reads, writes = access_regions(self.state, body)
        return Block(tuple(iters), tuple([r for r in reads if r.buffer not in outputs]), writes, name, body, init)
