"""Sets of integer points that satisfy linear conditions, combined by `and`, `or` and `not`."""

from __future__ import annotations

from tilewright.arith.analyzer import Analyzer, Extension
from tilewright.arith.int_solver import solve_inequalities_as_condition
from tilewright.arith.intervals import IntSet
from tilewright.arith.simplifier.logic import FALSE, TRUE
from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import arithmetic as A


class PresburgerSet(IntSet, key="arith.PresburgerSet"):
    """The points for which `constraint` holds. The default is all points."""

    constraint: PrimExpr = TRUE

    def is_nothing(self) -> bool:
        """Whether the set is certainly empty: every alternative is contradictory."""
        analyzer = Analyzer()
        analyzer.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
        # The clauses of not (a and (b or c)) in and-of-ors form are the negated alternatives of the set.
        clauses = A.conjuncts(analyzer.simplify(A.logical_not(self.constraint)))
        return all([self._contradicts(analyzer.simplify(A.logical_not(c))) for c in clauses])

    def _contradicts(self, alternative: PrimExpr) -> bool:
        if isinstance(alternative, IntImm):
            return not alternative.value
        return any([e is FALSE for e in solve_inequalities_as_condition([alternative])])

    def is_everything(self) -> bool:
        return Analyzer().can_prove(self.constraint)

    def union(self, other: PresburgerSet) -> PresburgerSet:
        """The points of both sets together."""
        return PresburgerSet(Analyzer().simplify(A.logical_or(self.constraint, other.constraint)))

    def intersect(self, other: PresburgerSet) -> PresburgerSet:
        """The points that are in both sets."""
        return PresburgerSet(Analyzer().simplify(A.logical_and(self.constraint, other.constraint)))
