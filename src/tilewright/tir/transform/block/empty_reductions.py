"""Reductions over empty loops: a loop without iterations never reaches the step with `init`, so `init` needs a separate loop.

    for i: for k in n: C[i] (init 0) += A[i, k]
-->
    for i: {if n <= 0: C_init[i] = 0;  for k in n: C[i] (init 0) += A[i, k]}
"""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Mutator, Node, on
from tilewright.tir.arithmetic import conjuncts, const_true, logical_and, logical_or
from tilewright.tir.expr import EQ, LE, IterVar, Not, Var
from tilewright.tir.stmt import Block, BlockRealize, For, ForKind, IfThenElse, Stmt, stmt_seq
from tilewright.tir.stmt_functor import renew_stmt, substitute, used_vars


def _may_be_empty(loop: For) -> bool:
    return not isinstance(loop.extent, IntImm) or loop.extent.value <= 0


def _vars_of(values: list[PrimExpr]) -> set[Var]:
    return {v for value in values for v in used_vars(value)}


def _only_holds(s: BlockRealize) -> bool:
    """Whether a block has only allocations: the loops around it belong to its inner blocks."""
    block = s.block
    always = isinstance(s.predicate, IntImm) and bool(s.predicate.value)
    return always and not block.iter_vars and not block.match_buffers and block.init is None


class _DefineEmpty(Mutator):
    """Adds the initialisation before the outermost reduction loop of each block, if one of its reduction loops may be empty."""

    def __init__(self) -> None:
        self.loops: list[For] = []
        self.before: dict[Var, list[Stmt]] = {}
        self.analyzer = Analyzer()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.loops.append(s)
        new = self.rebuild(s)
        self.loops.pop()
        return stmt_seq(*self.before.pop(s.loop_var, ()), new)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        if s.block.init is not None:
            self.define(s)
        outer = self.loops
        if not _only_holds(s):
            self.loops = []
        new = self.rebuild(s)
        self.loops = outer
        return new

    def define(self, s: BlockRealize) -> None:
        """Plans the initialisation of one block. It skips loops whose number of steps changes between reductions, and loops that
        are both reduction loops and spatial loops."""
        pairs = list(zip(s.block.iter_vars, s.iter_values, strict=True))
        reduced = _vars_of([v for axis, v in pairs if axis.iter_type == IterVar.CommReduce])
        spatial = _vars_of([v for axis, v in pairs if axis.iter_type != IterVar.CommReduce])
        first = next((i for i, loop in enumerate(self.loops) if loop.loop_var in reduced), len(self.loops))
        inside = self.loops[first:]
        mine = {loop.loop_var for loop in inside}
        empty = [loop for loop in inside if loop.loop_var in reduced and _may_be_empty(loop)]
        at_first = {loop.loop_var: loop.min for loop in inside if loop.loop_var not in spatial}
        # The first step itself may be masked, such as in a tile of a loop that is longer than the axis.
        refused = [
            substitute(part, at_first)
            for part in conjuncts(s.predicate)
            if not reduced.isdisjoint(used := used_vars(part)) and spatial.isdisjoint(used)
        ]
        if (
            not inside
            or reduced & spatial
            or any([loop.kind == ForKind.THREAD_BINDING for loop in inside])
            or _vars_of([e for loop in inside for e in (loop.min, loop.extent)]) & mine
        ):
            return
        condition: PrimExpr = IntImm("bool", 0)
        for loop in empty:
            condition = logical_or(condition, LE(loop.extent, IntImm(loop.extent.dtype, 0)))
        for part in refused:
            condition = logical_or(condition, self.analyzer.simplify(Not(part)))
        # Loops that continue a reduction do not initialise it.
        for axis, value in pairs:
            if isinstance(condition, IntImm) and not condition.value:
                return
            if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                begins = EQ(substitute(value, at_first), axis.dom.min.astype(value.dtype))
                condition = logical_and(condition, self.analyzer.simplify(begins))
        if isinstance(condition, IntImm) and not condition.value:
            return
        nest = self.initialisation(s, mine - spatial)
        for loop in reversed(inside):
            if loop.loop_var in spatial:
                nest = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, nest)
        self.before.setdefault(inside[0].loop_var, []).append(IfThenElse(condition, renew_stmt(nest)))

    def initialisation(self, s: BlockRealize, dropped: set[Var]) -> Stmt:
        """The `init` of the block for each element of the result, without the loops for reductions."""
        block = s.block
        kept = [
            (a, v) for a, v in zip(block.iter_vars, s.iter_values, strict=True) if a.iter_type != IterVar.CommReduce
        ]
        # The elements of the result do not depend on the reduction axes, though regions of views may contain them.
        points = {a.var: a.dom.min for a in block.iter_vars if a.iter_type == IterVar.CommReduce and a.dom is not None}
        predicate = const_true()
        for part in conjuncts(s.predicate):
            if dropped.isdisjoint(used_vars(part)):
                predicate = logical_and(predicate, part)
        views = substitute(block.match_buffers, points) if block.match_buffers else ()
        assert block.init is not None
        init = Block(
            tuple([a for a, _ in kept]), (), block.writes, f"{block.name_hint}_init", block.init, None, (), views
        )
        return BlockRealize(tuple([v for _, v in kept]), predicate, init)


def define_empty_reductions(stmt: Node) -> Any:
    """Makes reductions over loops that may be empty store their initial value. Returns the same statement if there are no such
    reductions.
    """
    return _DefineEmpty().visit(stmt)
