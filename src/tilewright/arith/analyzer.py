"""`Analyzer`: known facts about variables, and queries on expressions."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, IntEnum
from math import inf
from typing import Any, ClassVar

from tilewright.arith.const_bounds import Bound, Modular, crt
from tilewright.arith.intervals import Evaluator, IntervalSet, eval_set, interval_of_range
from tilewright.arith.linear import Lin, OutOfRange, combine, constant
from tilewright.arith.simplifier.engine import Engine, same
from tilewright.arith.simplifier.logic import TRUE
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import Node, deep_recursion
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import Var


class ConstIntBound(Node, key="arith.ConstIntBound"):
    """min_value <= value <= max_value; NEG_INF and POS_INF stand for no bound."""

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -((1 << 63) - 1)

    min_value: int
    max_value: int


class ModularSet(Node, key="arith.ModularSet"):
    """Every value is coeff * k + base for some integer k; coeff 0 means that the value is base."""

    coeff: int
    base: int


class ProofStrength(IntEnum):
    """The effort of `can_prove`. DEFAULT: forms and facts; SYMBOLIC_BOUND: also the ends of symbolic intervals."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(Flag):
    """Rewrites that classic TVM's rewriter does only on request.

    Transitive inequalities and comparisons of products with sums are always proved here.
    """

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class RewriteSimplifierStats(Node, key="arith.RewriteSimplifierStats"):
    """Counts of the simplifier since the last reset."""

    nodes_visited: int
    constraints_entered: int
    rewrites_attempted: int
    rewrites_performed: int
    max_recursive_depth: int
    num_recursive_rewrites: int


class ConstraintScope:
    """A context in which a condition holds. `fenter` starts it and returns the function that ends it."""

    def __init__(self, fenter: Callable[[], Callable[[], None]]) -> None:
        self._fenter = fenter
        self._fexit: list[Callable[[], None]] = []

    def __enter__(self) -> ConstraintScope:
        self._fexit.append(self._fenter())
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._fexit.pop()()


def _clip(value: float) -> int:
    return int(max(min(value, ConstIntBound.POS_INF), ConstIntBound.NEG_INF))


def _widen(bound: ConstIntBound) -> Bound:
    low, high = bound.min_value, bound.max_value
    return (-inf if low <= ConstIntBound.NEG_INF else low), (inf if high >= ConstIntBound.POS_INF else high)


class Analyzer:
    """Answers queries on integer expressions from known ranges, values and conditions of variables.

    Results are cached by node identity. The cache is cleared when the facts about a used variable change.
    """

    def __init__(self) -> None:
        self.engine = Engine()
        self._extensions = Extension.NoExtensions

    # Facts

    def bind(self, var: Var, expr: PrimExpr | Range | int, allow_override: bool = False) -> None:
        """Binds `var` to a value or a range. It replaces earlier facts about `var`."""
        if isinstance(expr, Range):
            self.engine.bind_range(var, expr)
        else:
            self.engine.bind_value(var, as_prim_expr(expr, "value", var.dtype))

    def update(self, var: Var, info: ConstIntBound | IntervalSet, override: bool = False) -> None:
        """Adds a ConstIntBound, a ModularSet or an interval set of `var`. With `override` it replaces earlier facts.

        Raises ValueError if it contradicts earlier facts and `override` is false.
        """
        engine = self.engine
        t = engine.leaf(var)
        if isinstance(info, ConstIntBound):
            found = _widen(info)
            old = engine.var_bound.get(t)
            if old is not None and not override:
                found = max(old[0], found[0]), min(old[1], found[1])
                if found[0] > found[1]:
                    raise ValueError(
                        f"bound of {var.name} is already {old}; it cannot also be {info}; override=True replaces it"
                    )
            engine.var_bound[t] = found
        elif isinstance(info, ModularSet):
            modular: Modular | None = (info.coeff, info.base)
            known = engine.var_mod.get(t)
            if known is not None and not override:
                modular = crt(known, (info.coeff, info.base))
                if modular is None:
                    raise ValueError(
                        f"modular set of {var.name} is already {known}, not {info}; override=True replaces it"
                    )
            assert modular is not None
            engine.var_mod[t] = modular
        elif hasattr(info, "min_value") and hasattr(info, "max_value"):
            low = engine.lin(info.min_value) if info.has_lower_bound() else None
            high = engine.lin(info.max_value) if info.has_upper_bound() else None
            least = _clip(-inf if low is None else engine.bound(low)[0])
            self.update(
                var,
                ConstIntBound(least, _clip(inf if high is None else engine.bound(high)[1])),
                override,
            )
            engine.bind_ends(var, low, high)
        else:
            raise TypeError(
                f"Analyzer.update takes a ConstIntBound, a ModularSet or an IntervalSet, but was given {info!r}"
            )
        engine.forget()

    def constraint_scope(self, constraint: PrimExpr) -> ConstraintScope:
        """Within `with analyzer.constraint_scope(condition):` the condition holds."""
        condition = as_prim_expr(constraint)
        return ConstraintScope(lambda: self.engine.enter(condition))

    @property
    def enabled_extensions(self) -> Extension:
        """The extensions in use."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Extension | int) -> None:
        self._extensions = Extension(flags)
        self.engine.apply_constraints = Extension.ApplyConstraintsToBooleanBranches in self._extensions
        self.engine.forget()

    @property
    def rewrite_simplify_stats(self) -> RewriteSimplifierStats:
        """Counts of the simplifier."""
        return RewriteSimplifierStats(*self.engine.stats)

    def reset_rewrite_simplify_stats(self) -> None:
        """Sets all counts to zero."""
        self.engine.stats = [0] * 6

    # Queries

    def const_int_bound(self, expr: PrimExpr | int) -> ConstIntBound:
        """Constant bounds of an integer expression."""
        low, high = self.bound(expr)
        return ConstIntBound(_clip(low), _clip(high))

    def bound(self, expr: PrimExpr | int) -> tuple[Any, Any]:
        """Constant bounds as a pair of Python numbers, which may be infinite."""
        expr = as_prim_expr(expr)
        if self.engine.is_index(expr):
            return self.engine.bound(self._lin(expr))
        simple = self._simp(expr)
        return self.engine.node_bound(simple)

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether bounds of the variable are given."""
        t = self.engine.leaf(var)
        return t in self.engine.var_bound or id(var) in self.engine.values

    def modular_set(self, expr: PrimExpr | int) -> ModularSet:
        """(coeff, base) with expr = coeff * k + base."""
        expr = as_prim_expr(expr)
        coeff, base = self.engine.modular(self._lin(expr)) if self.engine.is_index(expr) else (1, 0)
        return ModularSet(coeff, base)

    def simplify(self, expr: PrimExpr | int, steps: int = 2) -> PrimExpr:
        """The expression in its simplest form; the same object if it is already simple.

        `steps` is accepted for compatibility: one pass reaches the normal form.
        """
        expr = as_prim_expr(expr)
        out = self._simp(expr)
        if Extension.ConvertBooleanToAndOfOrs in self._extensions and out.dtype.is_bool:
            out = self.engine.and_of_ors(out)
        return expr if same(out, expr) else out

    def rewrite_simplify(self, expr: PrimExpr | int) -> PrimExpr:
        """The same as `simplify`."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: PrimExpr | int) -> PrimExpr:
        """The same as `simplify`."""
        return self.simplify(expr)

    def can_prove(self, expr: PrimExpr | bool, strength: int = 0) -> bool:
        """Whether the condition is certainly true; `strength` is a ProofStrength.

        SYMBOLIC_BOUND also compares the ends of the symbolic intervals of bound ranges.
        """
        simple = self._simp(as_prim_expr(expr))
        if isinstance(simple, IntImm):
            return simple.value != 0
        return strength >= ProofStrength.SYMBOLIC_BOUND and self._holds_at_the_ends(simple)

    def _holds_at_the_ends(self, condition: PrimExpr) -> bool:
        engine = self.engine
        evaluator = Evaluator({v: interval_of_range(r) for v, r in engine.domains.values()}, engine)
        for c in conjuncts(condition):
            forms = engine.orderings_of(c)
            if not forms:
                return False
            for d in forms:
                high = evaluator.form(d)[1]
                if high is None or not engine.prove_nonpositive(high):
                    return False
        return True

    def can_prove_equal(self, lhs: PrimExpr | int, rhs: PrimExpr | int) -> bool:
        """Whether both expressions certainly have the same value."""
        if lhs is rhs:
            return True
        a, b = self._pair(lhs, rhs)
        d = self._difference(a, b)
        if d is None:
            return same(self._simp(a), self._simp(b))
        engine = self.engine
        try:
            return engine.bound(d) == (0, 0) or engine.zero(d, a.dtype) is TRUE
        except OutOfRange:
            return False

    def can_prove_greater_equal(self, expr: PrimExpr, lower_bound: int) -> bool:
        """Whether expr >= lower_bound is certain."""
        return self.engine.prove_nonpositive(combine(constant(int(lower_bound)), self._lin(expr), -1))

    def can_prove_less(self, expr: PrimExpr, upper_bound: int) -> bool:
        """Whether expr < upper_bound is certain."""
        return self.engine.prove_nonpositive(combine(self._lin(expr), constant(1 - int(upper_bound))))

    def can_prove_less_equal_than_symbolic_shape_value(self, lhs: PrimExpr, rhs: PrimExpr) -> bool:
        """Whether lhs <= rhs is certain, for sizes that are not negative."""
        return self.can_prove(lhs <= rhs)

    def int_set(self, expr: PrimExpr, dom_map: dict[Var, IntervalSet | Range] | None = None) -> IntervalSet:
        """The values of `expr` over the sets (IntSet or Range) in `dom_map`; by default over the bound ranges."""
        if dom_map is None:
            dom_map = {var: interval_of_range(domain) for var, domain in self.engine.domains.values()}
        return eval_set(expr, dom_map, self)

    def _simp(self, expr: PrimExpr) -> PrimExpr:
        try:
            return self.engine.simp(expr)
        except RecursionError:
            with deep_recursion():
                return self.engine.simp(expr)

    def _lin(self, expr: PrimExpr) -> Lin:
        try:
            return self.engine.lin(expr)
        except RecursionError:
            with deep_recursion():
                return self.engine.lin(expr)

    def _pair(self, lhs: Any, rhs: PrimExpr | int) -> tuple[PrimExpr, PrimExpr]:
        a = as_prim_expr(lhs, "left side", getattr(rhs, "dtype", None))
        return a, as_prim_expr(rhs, "right side", a.dtype)

    def _difference(self, a: PrimExpr, b: PrimExpr) -> Lin | None:
        engine = self.engine
        if not (engine.is_index(a) and engine.is_index(b)):
            return None
        return engine.merge(combine(self._lin(a), self._lin(b), -1))
