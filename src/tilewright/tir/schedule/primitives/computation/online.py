"""online: sums that are weighted by exp(x - M) run while the maximum M is still being found, and are rescaled when it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.ir import FloatImm, Range
from tilewright.node import nodes_of
from tilewright.tir import (
    Add,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    For,
    IterVar,
    Max,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
    decl_buffer,
    exp,
    exp2,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    REDUCE,
    Leaf,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    loops_above,
    scope_leaves,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import same
from tilewright.tir.schedule.facts.loop_checks import need_plain_loop
from tilewright.tir.schedule.facts.reducers import Reducer, reducer_of
from tilewright.tir.schedule.facts.regions import access_regions
from tilewright.tir.schedule.primitives.computation.attach import need_inputs_ready
from tilewright.tir.schedule.primitives.computation.reduction import initial_nest, need_single_visits
from tilewright.tir.schedule.primitives.copies import copy_iters
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, body_list, substitute_loops, vars_in
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute, used_vars

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@primitive
def online(s: Schedule, first: LoopRV, second: LoopRV) -> list[BlockRV]:
    """for t: M = max(M, N[t]);  for t: S += exp(x[t] - M) * y[t]
           -->   for t: {F[t] = exp(M - max(M, N[t]));  M = max(M, N[t]);  S = S * F[t];  S += exp(x[t] - M) * y[t]}

    Sums are rescaled when the maximum of what was seen so far grows (online softmax; Milakov and Gimelshein, arXiv:1805.02867).
    `first` holds the maximum alone, of one value in each iteration (`rfactor` gives it this form); `second` follows it. There the
    maximum is read only as exp(x - M), or exp2 of that, as a factor of terms of sums, which can differ in rounding. Returns the
    blocks of the factors F, those that rescale each sum, and those of the initial values, of the maximum and of each sum.
    """
    state = s.state
    found = _Online(state, s.loop(first), s.loop(second)).run()
    return [s.block_rv(state.ref(block)) for block in found]


class _Sum(NamedTuple):
    """A sum that the loop runs over. at: the element of the maximum by which its terms are scaled, by variables of its block."""

    leaf: Leaf
    reducer: Reducer
    at: tuple[PrimExpr, ...]


class _Online:
    def __init__(self, state: ScheduleState, first: StmtSRef, second: StmtSRef) -> None:
        self.state, self.first, self.second = state, first, second
        need_plain_loop(first.stmt)
        need_plain_loop(second.stmt)
        parent = first.parent
        statements = [] if parent is None else body_list(parent.stmt.body)
        places = [next((i for i, x in enumerate(statements) if x is r.stmt), -1) for r in (first, second)]
        if parent is None or places[0] < 0 or places[1] != places[0] + 1:
            refuse("{1} must directly follow {0}", first.stmt, second.stmt)
        forms = state.forms
        if not same(forms.of(first.stmt.extent), forms.of(second.stmt.extent)):
            refuse("{0} and {1} must have the same extent", first.stmt, second.stmt)
        self.parent: StmtSRef = parent
        self._maximum()
        self.outer = tuple([r.stmt for r in loops_above(second)]) + (second.stmt,)
        self.scaled: dict[Buffer, tuple[tuple[Var, ...], tuple[PrimExpr, ...], Leaf]] = {}
        self.sums: list[_Sum] = []
        self.powers: set[str] = set()
        inside = leaves(second.stmt)
        self.under = {id(x.block) for x in inside}
        for leaf in inside:
            self._classify(leaf_of(state.ref(leaf.block)))
        if not self.sums:
            refuse("{1} must hold a sum of values that are scaled by exp(x - M), with M the result of {0}",
                   self.top.block, second.stmt)  # fmt: skip
        if len(self.powers) != 1:
            refuse("what is below {0} must be scaled by exp or by exp2, not by both", second.stmt)

    def _maximum(self) -> None:
        """The block that finds the maximum."""
        first = self.first.stmt
        found = leaves(first.body)
        if len(found) != 1:
            refuse("{0} must hold exactly one block", first)
        self.top = leaf_of(self.state.ref(found[0].block))
        block = self.top.block
        if block.init is None:
            refuse("{0} must be a maximum with an initialisation", block)
        self.maximum = reducer_of(block)
        combined = self.maximum.values
        if len(combined) != 1 or type(combined[0]) is not Max:
            refuse("{0} must be a maximum of one buffer", block)
        start = self.maximum.identities[0]
        if not isinstance(start, FloatImm) or abs(start.value) == float("inf"):
            refuse("{0} must begin with a finite value, from which others can be subtracted", block)
        reduced = [
            (iv, v)
            for iv, v in zip(block.iter_vars, self.top.realize.iter_values, strict=True)
            if iv.iter_type == REDUCE
        ]
        if len(reduced) != 1 or reduced[0][1] is not first.loop_var:
            refuse("{0} must combine one value in each iteration of {1}; rfactor gives it this form", block, first)
        self.step: IterVar = reduced[0][0]
        self.m: Buffer = self.maximum.stores[0].buffer

    # ---- what is below the second loop

    def _classify(self, leaf: Leaf) -> None:
        """Find out whether a block makes scaled values, or is a sum of them."""
        block = leaf.block
        inputs = {load.buffer for load in nodes_of(self.maximum.incoming[0], BufferLoad)}
        if {self.m, *inputs} & {r.buffer for r in block.writes}:
            refuse("{1} must not change what {0} reads or writes", self.top.block, block)
        if not self._buffers(block) & {self.m, *self.scaled}:
            return
        if block.init is None:
            store = block.body
            if not isinstance(store, BufferStore) or store.buffer in {r.buffer for r in block.reads}:
                refuse("{0} must store one value, made of those that are scaled by exp(x - M)", block)
            at = self._scale_of(store.value, block)
            if at is not None:
                self._note(leaf, store, at)
            return
        reducer = reducer_of(block)
        if len(reducer.values) != 1 or type(reducer.values[0]) is not Add:
            refuse("{0} must be a sum, as it takes values that are scaled by exp(x - M)", block)
        at = self._scale_of(reducer.incoming[0], block)
        if at is None:
            return
        stepping = {iv.var for iv in block.iter_vars if iv.iter_type == REDUCE}
        if stepping & set(used_vars(at)):
            refuse("{0} must sum up values of one maximum", block)
        if REDUCE in binding_of(self.state, leaf).uses.get(self.second.stmt.loop_var, ()):
            own = reducer.stores[0].buffer
            for other in scope_leaves(self.state.ref(block)):
                if id(other.block) in self.under and other.block is not block and own in self._buffers(other.block):
                    refuse("{0} is not complete in {1}, but {2} uses it there", block, self.second.stmt, other.block)
            need_single_visits(self.state, leaf, len(self.outer) - 1)
            self.sums.append(_Sum(leaf, reducer, at))
        else:
            self._note(leaf, reducer.stores[0], at)

    @staticmethod
    def _buffers(block: Block) -> set[Buffer]:
        return {r.buffer for r in (*block.reads, *block.writes)}

    def _note(self, leaf: Leaf, store: BufferStore, at: tuple[PrimExpr, ...]) -> None:
        """Remember a buffer of scaled values, all of which are used in the iteration that makes them."""
        block = leaf.block
        indices = store.indices
        if not all([isinstance(i, Var) for i in indices]) or len(set(indices)) != len(indices):
            refuse("{0} must store to elements that are numbered by its variables", block)
        held: Any = indices
        if not set(used_vars(at)) <= set(held):
            refuse("{0} must store values of different maxima to different elements", block)
        for other in scope_leaves(self.state.ref(block)):
            if id(other.block) not in self.under and store.buffer in self._buffers(other.block):
                refuse("{0} must be used only below {1}, but {2} uses it", store.buffer, self.second.stmt, other.block)
        self.scaled[store.buffer] = (tuple(held), at, leaf)

    def _scale_of(self, e: Any, block: Block) -> tuple[PrimExpr, ...] | None:
        """The element of the maximum by which an expression is scaled: it is proportional to exp(-M[at]). None if it does not depend on
        the maximum; refused if it does in another way."""
        if isinstance(e, BufferLoad) and e.buffer in self.scaled:
            names, at, source = self.scaled[e.buffer]
            need_inputs_ready(self.state, leaf_of(self.state.ref(block)), [source], self.outer)
            return tuple([substitute(x, dict(zip(names, e.indices, strict=True))) for x in at])
        if not any([x.buffer is self.m or x.buffer in self.scaled for x in nodes_of(e, BufferLoad)]):
            return None
        if isinstance(e, Call) and e.intrinsic in ("exp", "exp2") and isinstance(e.args[0], Sub):
            other, top = e.args[0].a, e.args[0].b
            if isinstance(top, BufferLoad) and top.buffer is self.m and self._scale_of(other, block) is None:
                self.powers.add(e.intrinsic)
                return tuple(top.indices)
        elif isinstance(e, Cast) and e.dtype.is_float:
            return self._scale_of(e.value, block)
        elif isinstance(e, (Mul, Div)):
            a, b = self._scale_of(e.a, block), self._scale_of(e.b, block)
            if a is None and isinstance(e, Mul):
                return b
            if b is None:
                return a
        elif isinstance(e, (Add, Sub)):
            return self._common([e.a, e.b], block)
        elif isinstance(e, Select) and self._scale_of(e.condition, block) is None:
            return self._common([e.true_value, e.false_value], block)
        elif isinstance(e, Call) and e.intrinsic == "if_then_else" and self._scale_of(e.args[0], block) is None:
            return self._common(list(e.args[1:]), block)
        refuse(f"{{0}} must take the maximum as exp(x - M), and sum up multiples of that, but has {e}", block)
        return None

    def _common(self, parts: Sequence[Any], block: Block) -> tuple[PrimExpr, ...] | None:
        """The element by which all of several expressions are scaled, of which some may be 0."""
        found = [self._scale_of(p, block) for p in parts if not (isinstance(p, FloatImm) and p.value == 0)]
        forms = self.state.forms
        for at in found:
            if at is None or any([not same(forms.of(a), forms.of(b)) for a, b in zip(at, found[0] or (), strict=True)]):
                refuse("{0} must not add what is scaled to what is not", block)
        return found[0] if found else None

    # ---- the new loop

    def run(self) -> list[Block]:
        state, first, second = self.state, self.first.stmt, self.second.stmt
        loop_var = second.loop_var
        below = len(self.outer)
        dtype = self.m.dtype
        self.factors = decl_buffer([first.extent, *self.m.shape], dtype, f"{self.m.name}_factor")
        before: list[Any] = []
        starts: list[Block] = []
        changes: dict[int, Any] = {}
        reuse: dict[Any, Any] = {}
        for leaf in (self.top, *[x.leaf for x in self.sums]):
            nest, start = initial_nest(state, leaf, below - 1)
            before.append(nest)
            starts.append(start)
            old = leaf.block
            new = old.replace(init=None, reads=self._reads(old), name_hint=old.name_hint + "_update")
            changes[id(leaf.realize)] = leaf.realize.replace(block=new)
            reuse[old] = new
        maximum = ReplaceStmts(changes).run(first.body)
        maximum = substitute_loops(state.forms, maximum, {first.loop_var: loop_var})
        factor_nest, factor = self._factor_nest(below)
        made: list[Any] = [factor_nest, maximum]
        blocks = [factor]
        for x in self.sums:
            nest, block = self._rescaled(x, below)
            made.append(nest)
            blocks.append(block)
        rest = ReplaceStmts(changes).run(second.body)
        loop = second.replace(body=seq_of([*made, rest]))
        body = ReplaceStmts({id(first): None, id(second): seq_of([*before, loop])}).run(self.parent.stmt.body)
        scope = scope_root(self.parent) if type(self.parent.stmt) is For else self.parent
        state.replace(self.parent, self.parent.stmt.replace(body=body), reuse)
        state.replace(scope, scope.stmt.replace(alloc_buffers=(*scope.stmt.alloc_buffers, self.factors)))
        return [*blocks, *starts]

    @staticmethod
    def _reads(old: Block) -> tuple[Any, ...]:
        own = {r.buffer for r in old.writes} - {r.buffer for r in old.reads}
        return (*[w for w in old.writes if w.buffer in own], *old.reads)

    def _factor_nest(self, below: int) -> tuple[Any, Block]:
        """F[t, ..] = exp(M[..] - max(M[..], N[t, ..])), before the maximum takes the value of the iteration."""
        block, store = self.top.block, self.maximum.stores[0]
        iters, env = copy_iters(block.iter_vars)
        iters = tuple([IterVar(iv.dom, iv.var, DATA_PAR) for iv in iters])
        old = BufferLoad(self.m, tuple([substitute(i, env) for i in store.indices]))
        grown = self.maximum.combine([old], [substitute(self.maximum.incoming[0], env)])[0]
        power = exp2 if "exp2" in self.powers else exp
        at = (env[self.step.var] - self.first.stmt.min, *old.indices)
        at = tuple([self.state.forms.simplify(i) for i in at])
        body = BufferStore(self.factors, power(old - grown), at)
        return self._nest(self.top, below, iters, list(self.top.realize.iter_values), body, f"{block.name_hint}_factor")

    def _rescaled(self, x: _Sum, below: int) -> tuple[Any, Block]:
        """S[..] = S[..] * F[t, ..]."""
        block, store = x.leaf.block, x.reducer.stores[0]
        spatial = [iv for iv in block.iter_vars if iv.iter_type == DATA_PAR]
        iters, env = copy_iters(spatial)
        step = Var(f"v{self.second.stmt.loop_var.name}", self.step.var.dtype)
        domain = Range.from_min_extent(self.second.stmt.min, self.second.stmt.extent)
        iters = (*iters, IterVar(domain, step, REDUCE))
        old = BufferLoad(store.buffer, tuple([substitute(i, env) for i in store.indices]))
        number = self.state.forms.simplify(step - self.second.stmt.min)
        factor = BufferLoad(self.factors, (number, *[substitute(i, env) for i in x.at]))
        scaled = factor if factor.dtype == old.dtype else factor.astype(old.dtype)
        body = BufferStore(store.buffer, old * scaled, old.indices)
        values = [
            v for iv, v in zip(block.iter_vars, x.leaf.realize.iter_values, strict=True) if iv.iter_type == DATA_PAR
        ]
        values.append(self.second.stmt.loop_var)
        return self._nest(x.leaf, below, iters, values, body, f"{block.name_hint}_rescaled")

    def _nest(
        self, leaf: Leaf, below: int, iters: Any, values: list[Any], body: BufferStore, name: str
    ) -> tuple[Any, Block]:
        """A block in copies of those loops of another one, from number `below` inwards, on which its values depend."""
        state = self.state
        for iv in iters:
            state.note_range(iv.var, iv.dom.min, iv.dom.extent)
        used = used_vars(tuple(values))
        inner = [lp for lp in leaf.loops[below:] if lp.loop_var in used]
        dropped = {lp.loop_var for lp in leaf.loops[below:]} - {lp.loop_var for lp in inner}
        env: dict[Any, Any] = {lp.loop_var: Var(lp.loop_var.name, lp.loop_var.dtype) for lp in inner}
        env[self.first.stmt.loop_var] = self.second.stmt.loop_var
        kept = [c for c in conjuncts(leaf.realize.predicate) if dropped.isdisjoint(vars_in(c))]
        reads, writes = access_regions(state, body)
        block = Block(iters, reads, writes, name, body)
        predicate = conjunction([substitute(c, env) for c in kept])
        nest: Any = BlockRealize(tuple([substitute(v, env) for v in values]), predicate, block)
        for lp in reversed(inner):
            state.note_range(env[lp.loop_var], lp.min, lp.extent)
            nest = lp.replace(loop_var=env[lp.loop_var], body=nest)
        return nest, block


__all__ = ["online"]
