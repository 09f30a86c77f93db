"""Systems of linear equations and inequalities over the integers.

Equations are solved by a diagonal form of their matrix (unimodular row and column operations). Inequalities are solved by
eliminating one variable after the other (Fourier and Motzkin): the bounds of a variable contain only later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import lcm
from typing import TYPE_CHECKING, Any

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.intervals import Evaluator
from tilewright.arith.linear import (
    LEAF,
    Atom,
    Lin,
    OutOfRange,
    combine,
    constant,
    gcd_step,
    mentions,
    scale,
    shift,
)
from tilewright.arith.simplifier.logic import FALSE, TRUE
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import Node, any_node, nodes_of
from tilewright.tir import arithmetic as A
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import EQ, GE, LE, Var
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.arith.simplifier.engine import Engine


_MOST_PAIRS = 400


class IntConstraints(Node, key="arith.IntConstraints"):
    """Integer variables, the ranges of some of them, and relations between them."""

    variables: tuple[Var, ...]
    ranges: Mapping[Var, Range] = {}
    relations: tuple[PrimExpr, ...] = ()


class IntConstraintsTransform(Node, key="arith.IntConstraintsTransform"):
    """Two systems with the same solutions. `src_to_dst` gives each variable of `src` in variables of `dst`; `dst_to_src` the reverse."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: Mapping[Var, PrimExpr]
    dst_to_src: Mapping[Var, PrimExpr]


class IntGroupBounds(Node, key="arith.IntGroupBounds"):
    """Bounds of one variable v: coef * v >= each of `lower`, == each of `equal`, <= each of `upper`."""

    coef: PrimExpr
    lower: tuple[PrimExpr, ...]
    equal: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]

    @staticmethod
    def from_range(rng: Range) -> IntGroupBounds:
        """The bounds of a range."""
        one = IntImm(rng.min.dtype, 1)
        if isinstance(rng.extent, IntImm) and rng.extent.value == 1:
            return IntGroupBounds(one, (), (rng.min,), ())
        return IntGroupBounds(one, (rng.min,), (), (Analyzer().simplify(rng.min + rng.extent - 1),))

    def find_best_range(self, ranges: Mapping[Var, Range] | None = None) -> Range | None:
        """The smallest range around the values; None if one side has no bound.

        `ranges` are ranges of variables in the bounds. The extent is its maximum over them.
        """
        analyzer = Analyzer()
        engine = analyzer.engine
        lower, equal, upper = ([engine.lin(e) for e in es] for es in (self.lower, self.equal, self.upper))
        if not isinstance(self.coef, IntImm):
            raise TypeError(f"the coefficient of IntGroupBounds must be a constant, but is {self.coef}")
        group = _Group(self.coef.value, lower, equal, upper)
        found = group.best_range(Evaluator(ranges or {}, engine), set())
        if found is None:
            return None
        dtype = self.coef.dtype
        start = group.start(engine, found[0])
        return Range.from_min_extent(engine.emit(start, dtype), engine.emit(found[1], dtype))


# Equations


def _system(equations: Any, variables: Any, ranges: Any) -> IntConstraints:
    if isinstance(equations, IntConstraints):
        if variables is not None or ranges is not None:
            raise ValueError("a system given as IntConstraints has its own variables and ranges")
        return equations
    relations = [as_prim_expr(e) for e in equations]
    if variables is None:
        variables = list(dict.fromkeys([v for e in relations for v in nodes_of(e, Var)]))
    return IntConstraints(tuple(variables), dict(ranges or {}), tuple(relations))


def _unsolvable() -> IntConstraints:
    return IntConstraints((), {}, (FALSE,))


def _row(a: Lin, index: Mapping[Atom, int], ids: set[int]) -> tuple[list[int], Lin] | None:
    """(coefficients of the variables, the rest); None if the form is not linear in them."""
    row = [0] * len(index)
    rest: dict[Atom, int] = {}
    for t, k in a.terms.items():
        if t in index:
            row[index[t]] = k
        elif mentions(t, ids):
            return None
        else:
            rest[t] = k
    return row, Lin(rest, a.const)


class _Diagonal:
    """The diagonal form U * matrix * V, with unimodular U and V. `right` becomes U * right; `inverse` is the inverse of V."""

    def __init__(self, matrix: list[list[int]], right: list[Lin], columns: int) -> None:
        self.matrix, self.right, self.columns = matrix, right, columns
        self.v = [[int(i == j) for j in range(columns)] for i in range(columns)]
        self.inverse = [[int(i == j) for j in range(columns)] for i in range(columns)]
        for k in range(min(len(matrix), columns)):
            pivot = next(
                ((i, j) for i in range(k, len(matrix)) for j in range(k, columns) if matrix[i][j]),
                None,
            )
            if pivot is None:
                break
            self._swap(k, *pivot)
            while self._clear_column(k) or self._clear_row(k):
                pass

    def _swap(self, k: int, i: int, j: int) -> None:
        self.matrix[k], self.matrix[i] = self.matrix[i], self.matrix[k]
        self.right[k], self.right[i] = self.right[i], self.right[k]
        for rows in (self.matrix, self.v):
            for row in rows:
                row[k], row[j] = row[j], row[k]
        self.inverse[k], self.inverse[j] = self.inverse[j], self.inverse[k]

    def _clear_column(self, k: int) -> bool:
        """Makes the elements below the pivot zero. Returns whether anything changed."""
        changed = False
        for i in range(k + 1, len(self.matrix)):
            if self.matrix[i][k]:
                a, b, p, q = gcd_step(self.matrix[k][k], self.matrix[i][k])
                top, low = self.matrix[k], self.matrix[i]
                self.matrix[k] = [a * x + b * y for x, y in zip(top, low, strict=True)]
                self.matrix[i] = [q * x - p * y for x, y in zip(top, low, strict=True)]
                above, below = self.right[k], self.right[i]
                self.right[k] = combine(scale(above, a), below, b)
                self.right[i] = combine(scale(above, q), below, -p)
                changed = True
        return changed

    def _clear_row(self, k: int) -> bool:
        """Makes the elements right of the pivot zero. Returns whether anything changed."""
        changed = False
        for j in range(k + 1, self.columns):
            if self.matrix[k][j]:
                a, b, p, q = gcd_step(self.matrix[k][k], self.matrix[k][j])
                for row in (*self.matrix, *self.v):
                    row[k], row[j] = a * row[k] + b * row[j], q * row[k] - p * row[j]
                top, low = self.inverse[k], self.inverse[j]
                self.inverse[k] = [p * x + q * y for x, y in zip(top, low, strict=True)]
                self.inverse[j] = [b * x - a * y for x, y in zip(top, low, strict=True)]
                changed = True
        return changed


def solve_linear_equations(
    equations: Sequence[PrimExpr] | IntConstraints,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of linear equations, in new variables that are free in their ranges.

    Relations of the result: equations that are not linear in the variables, and ranges that the new ranges do not imply.
    An unsolvable system has the one relation False. The default of `variables` is all variables in the equations.
    """
    problem = _system(equations, variables, ranges)
    names = problem.variables
    engine = Analyzer().engine
    index = {engine.leaf(v): i for i, v in enumerate(names)}
    ids = {id(v) for v in names}
    matrix: list[list[int]] = []
    right: list[Lin] = []
    relations: list[PrimExpr] = []
    for relation in problem.relations:
        for e in conjuncts(relation):
            found = None
            if isinstance(e, EQ) and engine.is_index(e.a):
                found = _row(
                    engine.expand(combine(engine.lin(e.a), engine.lin(e.b), -1)),
                    index,
                    ids,
                )
            if found is None:
                relations.append(e)
            else:
                matrix.append(found[0])
                right.append(scale(found[1], -1))
    if not names:
        return IntConstraintsTransform(problem, problem, {}, {})
    diagonal = _Diagonal(matrix, right, len(names))
    dtype = names[0].dtype
    known, conditions = _divided(diagonal, engine)
    if known is None:
        return IntConstraintsTransform(problem, _unsolvable(), {}, {})
    fresh: dict[Var, PrimExpr] = {}
    for j, value in enumerate(known):
        if value is None:
            old = Lin(
                {engine.leaf(v): c for v, c in zip(names, diagonal.inverse[j], strict=True) if c},
                0,
            )
            to_old = engine.emit(old, dtype)
            suffix = f"_{to_old.name}" if isinstance(to_old, Var) else ""
            var = Var(f"n{len(fresh)}{suffix}", dtype)
            fresh[var] = to_old
            known[j] = Lin({engine.leaf(var): 1}, 0)
    to_new: dict[Var, PrimExpr] = {}
    for v, row in zip(names, diagonal.v, strict=True):
        total = constant(0)
        for value, c in zip(known, row, strict=True):
            assert value is not None
            total = combine(total, value, c)
        to_new[v] = engine.emit(engine.merge(total), v.dtype)
    relations = [
        *[EQ(engine.emit(c, dtype), IntImm(dtype, 0)) for c in conditions],
        *[substitute(e, to_new) for e in relations],
    ]
    solution = _solution(problem, relations, fresh, to_new)
    return (
        IntConstraintsTransform(problem, solution, to_new, fresh)
        if solution.variables or solution.relations != (FALSE,)
        else IntConstraintsTransform(problem, solution, {}, {})
    )


def undefined_in(e: PrimExpr, ranges: Mapping[Var, Range]) -> bool:
    """Whether the expression contains a variable without a range."""
    return any_node(e, lambda x: isinstance(x, Var) and x not in ranges)


def _divided(diagonal: _Diagonal, engine: Engine) -> tuple[list[Lin | None] | None, list[Lin]]:
    """(values of the diagonal's variables, or None for free ones; forms that must be 0). (None, []) without a solution."""
    known: list[Lin | None] = [None] * diagonal.columns
    conditions: list[Lin] = []
    for i, value in enumerate(diagonal.right):
        d = diagonal.matrix[i][i] if i < diagonal.columns else 0
        rest = engine.floormod(value, abs(d)) if d else engine.merge(value)
        if rest.terms:
            conditions.append(rest)
        elif rest.const:
            return None, []
        if d:
            known[i] = engine.floordiv(value, d)
    return known, conditions


def _solution(
    problem: IntConstraints,
    relations: list[PrimExpr],
    fresh: Mapping[Var, PrimExpr],
    to_new: Mapping[Var, PrimExpr],
) -> IntConstraints:
    """Ranges of the new variables, with relations for the parts of the old ranges that they do not imply."""
    analyzer = Analyzer()
    evaluator = Evaluator(problem.ranges, analyzer.engine)
    ranges: dict[Var, Range] = {}
    for v, domain in problem.ranges.items():
        if v not in to_new:
            ranges[v] = domain
            analyzer.bind(v, domain)
    engine = analyzer.engine
    for v, old in fresh.items():
        if undefined_in(old, problem.ranges):
            continue
        low, high = evaluator.expr(old)
        if low is not None and high is not None:
            extent = engine.merge(shift(combine(high, low, -1), 1))
            ranges[v] = Range.from_min_extent(engine.emit(low, v.dtype), engine.emit(extent, v.dtype))
    after = Analyzer()
    for v, domain in ranges.items():
        after.bind(v, domain)
    kept: list[PrimExpr] = []
    for v, domain in problem.ranges.items():
        if v in to_new:
            new = to_new[v]
            kept += [domain.min <= new, new < domain.min + domain.extent]
    out = [after.simplify(e) for e in (*relations, *kept)]
    if any([isinstance(e, IntImm) and not e.value for e in out]):
        return _unsolvable()
    return IntConstraints(tuple(fresh), ranges, tuple([e for e in out if not isinstance(e, IntImm)]))


# Inequalities


class _Group:
    """IntGroupBounds as forms."""

    def __init__(self, coef: int, lower: list[Lin], equal: list[Lin], upper: list[Lin]) -> None:
        self.coef, self.lower, self.equal, self.upper = coef, lower, equal, upper

    def start(self, engine: Engine, which: int) -> Lin:
        """The smallest value by one bound: of `equal` if it is not empty, else of `lower`."""
        return scale(engine.floordiv(scale((self.equal or self.lower)[which], -1), self.coef), -1)

    def best_range(self, evaluator: Evaluator, unknown: set[int]) -> tuple[int, Lin] | None:
        """(index of the bound that gives the start, the smallest extent). The extent has no evaluated or unknown variable."""
        engine = evaluator.engine
        if self.equal:
            return 0, constant(1)
        best: tuple[int, Lin] | None = None
        for i in range(len(self.lower)):
            first = self.start(engine, i)
            for high in self.upper:
                last = engine.floordiv(high, self.coef)
                extent = evaluator.form(engine.merge(shift(combine(last, first, -1), 1)))[1]
                if extent is None or any([mentions(t, unknown) for t in extent.terms]):
                    continue
                if best is None or engine.prove_nonpositive(shift(combine(extent, best[1], -1), 1)):
                    best = i, extent
        return best


class _Elimination:
    """Bounds of each variable in later ones, and the remaining conditions. Raises _NoSolution."""

    def __init__(self, problem: IntConstraints) -> None:
        self.problem = problem
        self.analyzer = Analyzer()
        self.engine = engine = self.analyzer.engine
        self.variables = problem.variables
        self.others: list[PrimExpr] = []
        self.ids = {id(v) for v in self.variables}
        own = [(v, r) for v, r in problem.ranges.items() if id(v) in self.ids]
        for v, domain in problem.ranges.items():
            if id(v) not in self.ids:
                self.analyzer.bind(v, domain)
        forms = [d for e in problem.relations for d in self._forms(engine.simp(as_prim_expr(e)))]
        for v, domain in own:
            here = engine.lin(v)
            start, extent = engine.lin(domain.min), engine.lin(domain.extent)
            forms += [
                combine(start, here, -1),
                shift(combine(combine(here, start, -1), extent, -1), 1),
            ]
        for v, domain in own:
            # The domains stay conditions, but also bound later variables.
            low, high = (
                engine.bound(engine.lin(domain.min))[0],
                engine.bound(engine.lin(domain.min + domain.extent))[1],
            )
            engine.var_bound[engine.leaf(v)] = low, high - 1
        engine.forget()
        self.groups: dict[Var, _Group] = {}
        for v in self.variables:
            t = engine.leaf(v)
            if engine.var_bound.pop(t, None) is not None:
                engine.forget()
            forms = self._eliminate(v, t, self._pruned(forms))
        # The remaining conditions follow from the bounds of the variables, unless they contradict each other.
        if any([engine.nonpositive(d, self.dtype) is FALSE for d in self._pruned(forms)]):
            raise _NoSolution

    @property
    def dtype(self) -> str:
        return self.variables[0].dtype if self.variables else "int32"

    def _forms(self, condition: PrimExpr) -> list[Lin]:
        out = []
        for c in conjuncts(condition):
            if c is TRUE:
                continue
            if c is FALSE:
                raise _NoSolution
            forms = [self.engine.expand(d) for d in self.engine.orderings_of(c)]
            if not any([mentions(t, self.ids) for d in forms for t in d.terms]) or any(
                [
                    not (t.kind == LEAF and id(t.leaf) in self.ids) and mentions(t, self.ids)
                    for d in forms
                    for t in d.terms
                ]
            ):
                self.others.append(c)
            else:
                out += forms
        return out

    def _pruned(self, forms: Sequence[Lin]) -> list[Lin]:
        """The conditions d <= 0 without certain ones, and with one for each set of terms."""
        best: dict[Any, Lin] = {}
        for d in forms:
            d = self.engine._reduce(d)
            if not d.terms:
                if d.const > 0:
                    raise _NoSolution
                continue
            key = frozenset(d.terms.items())
            old = best.get(key)
            if old is None or old.const < d.const:
                best[key] = d
        return list(best.values())

    def _eliminate(self, v: Var, t: Atom, forms: list[Lin]) -> list[Lin]:
        engine = self.engine
        lower: list[tuple[int, Lin]] = []
        upper: list[tuple[int, Lin]] = []
        rest: list[Lin] = []
        for d in forms:
            k = d.terms.get(t, 0)
            other = Lin({s: c for s, c in d.terms.items() if s is not t}, d.const)
            if k > 0:
                upper.append((k, scale(other, -1)))
            elif k < 0:
                lower.append((-k, other))
            else:
                rest.append(d)
        coef = lcm(*[c for c, _ in (*lower, *upper)]) if lower or upper else 1
        low = self._strongest([engine.merge(scale(a, coef // c)) for c, a in lower], -1)
        high = self._strongest([engine.merge(scale(a, coef // c)) for c, a in upper], 1)
        equal = [a for a in low if any([_same(a, b) for b in high])]
        # The conditions on v are complete. If there are too many pairs, those implied for later variables are left out.
        for a, b in product(low, high) if len(low) * len(high) <= _MOST_PAIRS else ():
            d = engine.merge(combine(a, b, -1))
            if not engine.prove_nonpositive(d):
                rest.append(d)
        self.groups[v] = _Group(
            coef,
            [a for a in low if not any([_same(a, e) for e in equal])],
            sorted(equal, key=_complexity),
            [a for a in high if not any([_same(a, e) for e in equal])],
        )
        return rest

    def _strongest(self, ends: list[Lin], sign: int) -> list[Lin]:
        """The lower ends (sign -1) or upper ends (1) that no other end implies, simple ones first."""
        kept: list[Lin] = []
        for a in ends:
            if any([self.engine.prove_nonpositive(scale(combine(b, a, -1), sign)) for b in kept]):
                continue
            kept = [b for b in kept if not self.engine.prove_nonpositive(scale(combine(a, b, -1), sign))]
            kept.append(a)
        return sorted(kept, key=_complexity)

    def conditions(self) -> list[PrimExpr]:
        """The bounds as conditions, by variable, followed by the remaining conditions."""
        out: list[PrimExpr] = []
        for v, group in self.groups.items():
            for kind, ends in ((EQ, group.equal), (GE, group.lower), (LE, group.upper)):
                out += [self._condition(kind, v, group.coef, a) for a in ends]
        return [*out, *self.others]

    def _condition(self, kind: type, v: Var, coef: int, end: Lin) -> PrimExpr:
        here = Lin({self.engine.leaf(v): coef}, 0)
        for dtype in (v.dtype, "int64"):
            try:
                out: PrimExpr = kind(self.engine.emit(here, dtype), self.engine.emit(end, dtype))
                return out
            except OutOfRange:
                continue
        raise OverflowError(f"a bound of {v.name} does not fit 64 bits")


class _NoSolution(Exception):
    """The inequalities contradict each other."""


def _same(a: Lin, b: Lin) -> bool:
    return a.terms == b.terms and a.const == b.const


def _complexity(a: Lin) -> tuple[int, int]:
    return len(a.terms), sum([k < 0 for k in a.terms.values()])


def solve_inequalities_as_condition(
    equations: Sequence[PrimExpr] | IntConstraints,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
) -> list[PrimExpr]:
    """The inequalities as conditions on one variable after the other, with bounds in later ones."""
    try:
        return _Elimination(_system(equations, variables, ranges)).conditions()
    except _NoSolution:
        return [FALSE]


def solve_linear_inequalities(
    equations: Sequence[PrimExpr] | IntConstraints,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """The solutions of linear inequalities as a range for each variable, in terms of later variables.

    Parts of the inequalities that the ranges do not imply are relations of the result. With `deskew_range`, new variables
    that start at zero replace the old ones, and the result is an IntConstraintsTransform.
    """
    problem = _system(equations, variables, ranges)
    try:
        found = _to_ranges(problem)
    except _NoSolution:
        found = _unsolvable()
    return _deskewed(problem, found) if deskew_range else found


def _to_ranges(problem: IntConstraints) -> IntConstraints:
    solved = _Elimination(problem)
    analyzer = Analyzer()
    engine = analyzer.engine
    ranges = {v: r for v, r in problem.ranges.items() if v not in solved.groups}
    for v, domain in ranges.items():
        analyzer.bind(v, domain)
    moved: dict[Var, Range] = {}
    for v in reversed(problem.variables):
        group = solved.groups[v]
        lower, equal, upper = (
            [engine.lin(solved.engine.emit(a, v.dtype)) for a in ends]
            for ends in (group.lower, group.equal, group.upper)
        )
        unknown = {id(w) for w in problem.variables if w not in moved}
        found = _Group(group.coef, lower, equal, upper).best_range(Evaluator(moved, analyzer.engine), unknown)
        if found is None:
            continue
        which, extent = found
        if engine.prove_nonpositive(extent):
            raise _NoSolution
        start = solved.engine.emit(group.start(solved.engine, which), v.dtype)
        moved[v] = Range.from_min_extent(start, engine.emit(extent, v.dtype))
        analyzer.bind(v, moved[v])
    relations = [e for e in solved.conditions() if not analyzer.can_prove(e)]
    if any([analyzer.can_prove(A.logical_not(e)) for e in relations]):
        raise _NoSolution
    return IntConstraints(problem.variables, {**ranges, **moved}, tuple(relations))


def _deskewed(problem: IntConstraints, found: IntConstraints) -> IntConstraintsTransform:
    if not found.variables and problem.variables:
        return IntConstraintsTransform(problem, found, {}, {})
    analyzer = Analyzer()
    to_new: dict[Var, PrimExpr] = {}
    to_old: dict[Var, PrimExpr] = {}
    ranges = {v: r for v, r in found.ranges.items() if v not in problem.variables}
    for v, domain in ranges.items():
        analyzer.bind(v, domain)
    for v in reversed(problem.variables):
        own = found.ranges.get(v)
        if own is None:
            to_new[v] = to_old[v] = v
            continue
        start = analyzer.simplify(substitute(own.min, to_new))
        if isinstance(own.extent, IntImm) and own.extent.value == 1:
            to_new[v] = start
            continue
        new = Var(f"{v.name}.shifted", v.dtype)
        to_new[v] = A.add(new, start)
        to_old[new] = analyzer.simplify(v - own.min)
        ranges[new] = Range.from_min_extent(IntImm(v.dtype, 0), analyzer.simplify(substitute(own.extent, to_new)))
        analyzer.bind(new, ranges[new])
    relations = [analyzer.simplify(substitute(e, to_new)) for e in found.relations]
    if any([isinstance(e, IntImm) and not e.value for e in relations]):
        return IntConstraintsTransform(problem, _unsolvable(), {}, {})
    order = tuple(reversed(to_old))
    kept = tuple([e for e in relations if not isinstance(e, IntImm)])
    back = {v: to_old[v] for v in order}
    return IntConstraintsTransform(
        problem,
        IntConstraints(order, ranges, kept),
        {v: to_new[v] for v in problem.variables},
        back,
    )
