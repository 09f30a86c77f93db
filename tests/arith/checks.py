"""What the arith fuzzer checks of one case: every answer of the analyzer against all points of the case's domain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.arith.brute import Points, agree
from tests.arith.expressions import RANGES, Expressions, Floats, Vectors
from tilewright import arith, tir
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on, post_order_visit, structural_equal


@dataclass
class Case:
    """An expression over a domain, under a condition; variables of `free` are unknown to the analyzer."""

    kind: str
    domain: dict[tir.Var, range]
    expr: Any
    condition: Any = None
    free: set[tir.Var] = field(default_factory=set)
    seed: int = 0

    def analyzer(self) -> arith.Analyzer:
        out = arith.Analyzer()
        for v, r in self.domain.items():
            if v not in self.free and v.dtype.is_int and v.dtype.bits >= 32:
                out.bind(v, Range.from_min_extent(IntImm(v.dtype, r.start), IntImm(v.dtype, len(r))))
        return out

    def points(self, most: int = 300) -> Points:
        rng = random.Random(self.seed)
        if self.kind == "float":
            special = [0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 3.5, -2.25, 1e30, 7e-5]
            count = 60
            values = {v: np.array([rng.choice(special) for _ in range(count)], dtype=str(v.dtype)) for v in self.domain}
            return Points(values, count)
        return Points.of(self.domain, rng, most)

    def __str__(self) -> str:
        over = ", ".join(
            f"{v.name}: {v.dtype} in [{r.start}, {r.stop}){' (unknown)' if v in self.free else ''}"
            for v, r in self.domain.items()
        )
        text = str(self.expr)
        return f"{self.kind}: {text}\n  {over}" + (f"\n  where {self.condition}" if self.condition is not None else "")


def random_case(kind: str, seed: Any) -> Case:
    """The case of that kind and seed."""
    rng = random.Random(seed)
    depth = rng.choice([2, 3, 3, 4, 4, 5, 6])
    names = "xyzw"[: rng.randint(1, 4)]
    case_seed = rng.randrange(1 << 30)
    if kind == "float":
        variables = [tir.Var(n, "float32") for n in names]
        floats = Floats(rng, variables)
        e = floats.value(depth) if rng.random() < 0.7 else floats.boolean(depth)
        return Case(kind, dict.fromkeys(variables, range(1)), e, seed=case_seed)
    if kind == "narrow":
        dtype = rng.choice(["int8", "uint8", "int16", "uint16", "uint32"])
        variables = [tir.Var(n, dtype) for n in names]
        wide = {"int8": range(-128, 128), "uint8": range(256), "int16": range(-32768, 32768)}
        domain = {v: rng.choice([wide.get(dtype, range(65536)), range(7)]) for v in variables}
        expressions = Expressions(rng, variables, dtype)
        e = expressions.integer(min(depth, 4)) if rng.random() < 0.6 else expressions.boolean(min(depth, 4))
        return Case(kind, domain, e, free=set(variables), seed=case_seed)
    dtype = "int64" if kind != "vector" and rng.random() < 0.15 else "int32"
    variables = [tir.SizeVar(n, dtype) if rng.random() < 0.08 else tir.Var(n, dtype) for n in names]
    domain = {}
    for v in variables:
        low, extent = rng.choice(RANGES)
        if isinstance(v, tir.SizeVar):
            low = max(low, 0)
        domain[v] = range(low, low + extent)
    free = {v for v in variables if rng.random() < 0.2}
    if kind == "vector":
        vectors = Vectors(rng, variables)
        e = vectors.integer(min(depth, 4)) if rng.random() < 0.7 else vectors.boolean(min(depth, 4))
        return Case(kind, domain, e, free=free, seed=case_seed)
    expressions = Expressions(rng, variables, dtype)
    if kind == "deduce":
        return Case(kind, domain, expressions.boolean(min(depth, 3)), free=free, seed=case_seed)
    e = expressions.integer(depth) if rng.random() < 0.6 else expressions.boolean(min(depth, 4))
    condition = expressions.boolean(min(depth, 3)) if kind == "scope" else None
    return Case(kind, domain, e, condition, free, case_seed)


class Wrong(AssertionError):
    """An answer that the points of the domain contradict."""


def need(holds: Any, what: str, points: Points, *shown: Any) -> None:
    if not np.all(holds):
        at = points.row(int(np.argmin(holds))) if np.ndim(holds) else ""
        raise Wrong(f"{what}: " + " -> ".join(str(s) for s in shown) + (f" at {at}" if at else ""))


def check(case: Case) -> bool:
    """Raises Wrong when an answer about the case is wrong; whether any point said anything."""
    return CHECKS[case.kind](case)


def _same_value(case: Case, points: Points, expected: Any, out: PrimExpr, what: str) -> None:
    got, bad = points.evaluate(out)
    need(~bad | _overflow_only(out), f"{what} is undefined where the expression is not", points, case.expr, out)
    need(agree(expected, got) | bad, f"{what} has another value", points, case.expr, out)


def _overflow_only(e: Any) -> bool:
    """Whether nothing in the expression can fail but overflow: sums in another order may pass a type's limit."""
    found: list[int] = []

    def look(x: Any) -> None:
        if isinstance(x, (tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod)):
            b = x.b.value if isinstance(x.b, tir.Broadcast) else x.b
            if not (isinstance(b, IntImm) and b.value):
                found.append(1)

    post_order_visit(e, look)
    return not found


def check_value(case: Case) -> bool:
    """Simplification keeps values; bounds, modular sets and integer sets hold them; proofs are true."""
    e, points = case.expr, case.points()
    expected, bad = points.evaluate(e)
    if case.condition is not None:
        holds, other = points.evaluate(case.condition)
        bad = bad | other | ~holds
    keep = ~bad
    if not keep.any():
        return False
    points, expected = points.where(keep), expected[keep]
    analyzer = case.analyzer()
    if case.condition is None:
        _answers(case, analyzer, points, expected)
        return True
    outside = analyzer.simplify(e)
    with analyzer.constraint_scope(case.condition):
        _answers(case, analyzer, points, expected)
    need(analyzer.simplify(e) is outside, "a scope leaves traces", points, e, outside)
    return True


def _answers(case: Case, analyzer: arith.Analyzer, points: Points, expected: Any) -> None:
    e = case.expr
    for name in ("simplify", "rewrite_simplify", "canonical_simplify"):
        out = getattr(analyzer, name)(e)
        need(out.dtype == e.dtype, f"{name} changes the type", points, e, out, out.dtype)
        _same_value(case, points, expected, out, name)
        again = getattr(analyzer, name)(out)
        need(again is out or structural_equal(again, out), f"{name} is not idempotent", points, e, out, again)
    if e.dtype.is_bool and e.dtype.lanes == 1:
        for strength in (arith.ProofStrength.DEFAULT, arith.ProofStrength.SYMBOLIC_BOUND):
            if analyzer.can_prove(e, strength):
                need(expected, f"proved with strength {strength.name}, but false", points, e)
            if analyzer.can_prove(tir.Not(e), strength):
                need(~expected, f"disproved with strength {strength.name}, but true", points, e)
        return
    if not (e.dtype.is_int or e.dtype.is_uint):
        return
    bound = analyzer.const_int_bound(e)
    need((expected >= bound.min_value) & (expected <= bound.max_value), "const_int_bound", points, e, bound)
    if e.dtype.lanes == 1:
        modular = analyzer.modular_set(e)
        coeff, base = modular.coeff, modular.base
        need((expected - base) % coeff == 0 if coeff else expected == base, "modular_set", points, e, modular)
        if case.kind != "narrow":
            _set_of(case, analyzer, points, expected)


def _set_of(case: Case, analyzer: arith.Analyzer, points: Points, expected: Any) -> None:
    """The set of the expression over the ranges of some variables; the others are symbols."""
    rng = random.Random(case.seed)
    moving = {v: r for v, r in case.domain.items() if rng.random() < 0.6}
    dom_map = {v: Range.from_min_extent(IntImm(v.dtype, r.start), IntImm(v.dtype, len(r))) for v, r in moving.items()}
    found = analyzer.int_set(case.expr, dom_map)
    for end, low in ((found.min_value, True), (found.max_value, False)):
        if end is arith.neg_inf() or end is arith.pos_inf():
            need((end is arith.neg_inf()) == low, "int_set is empty", points, case.expr, found)
            continue
        value, bad = points.evaluate(end)
        need((value <= expected if low else value >= expected) | bad, "int_set", points, case.expr, found)
        need(
            not any(_mentions(end, v) for v in moving),
            "int_set mentions a variable that it runs over",
            points,
            case.expr,
            found,
        )


def _mentions(e: PrimExpr, v: tir.Var) -> bool:
    found: list[int] = []
    post_order_visit(e, lambda x: found.append(1) if x is v else None)
    return bool(found)


def check_deduce(case: Case) -> bool:
    """Every value that deduce_bound gives makes the condition true, whatever the relaxed variables are."""
    rng = random.Random(case.seed)
    variables = list(case.domain)
    target = rng.choice(variables)
    relaxed = {v: r for v, r in case.domain.items() if v is not target and rng.random() < 0.6}
    as_sets = {v: arith.IntervalSet(IntImm(v.dtype, r[0]), IntImm(v.dtype, r[-1])) for v, r in relaxed.items()}
    hints = {
        v: arith.IntervalSet(IntImm(v.dtype, r[0]), IntImm(v.dtype, r[-1]))
        for v, r in case.domain.items()
        if v is not target
    }
    found = arith.deduce_bound(target, case.expr, hints, as_sets)
    if found.is_nothing() or found.is_everything():
        return False
    least = 0 if isinstance(target, tir.SizeVar) else -40
    wide = {**case.domain, target: range(max(least, case.domain[target].start - 20), case.domain[target].stop + 20)}
    points = Points.of(wide, rng)
    holds, bad = points.evaluate(case.expr)
    inside = ~bad
    for end, low in ((found.min_value, True), (found.max_value, False)):
        if end is arith.neg_inf() or end is arith.pos_inf():
            continue
        for v in relaxed:
            need(not _mentions(end, v), "deduce_bound mentions a relaxed variable", points, case.expr, found)
        value, other = points.evaluate(end)
        x = points.values[target]
        inside = inside & ~other & (x >= value if low else x <= value)
    need(
        holds | ~inside, f"deduce_bound of {target.name}, {[v.name for v in relaxed]} relaxed", points, case.expr, found
    )
    return bool(inside.any())


CHECKS: dict[str, Callable[[Case], bool]] = {
    "value": check_value,
    "scope": check_value,
    "vector": check_value,
    "float": check_value,
    "narrow": check_value,
    "deduce": check_deduce,
}


# The smallest expression that still fails


class _At(Mutator):
    """Replaces the n-th expression that a walk meets."""

    def __init__(self, index: int, new: Any) -> None:
        self.left, self.new = index, new

    @on(PrimExpr)
    def _expr(self, e: Any) -> Any:
        self.left -= 1
        return self.new if self.left == -1 else self.rebuild(e)


class _Nodes(Mutator):
    def __init__(self) -> None:
        self.found: list[Any] = []

    @on(PrimExpr)
    def _expr(self, e: Any) -> Any:
        self.found.append(e)
        return self.rebuild(e)


def _nodes(e: Any) -> list[Any]:
    walk = _Nodes()
    walk.visit(e)
    return walk.found


def _smaller(e: Any) -> Iterator[Any]:
    for i, node in enumerate(_nodes(e)):
        options: list[Any] = [c for c in _nodes(node)[1:] if c.dtype is node.dtype]
        options.sort(key=lambda c: len(_nodes(c)))
        if not isinstance(node, IntImm) and node.dtype.lanes == 1 and not node.dtype.is_float:
            options += [IntImm(node.dtype, 0), IntImm(node.dtype, 1)]
        for new in options:
            try:
                out = _At(i, new).visit(e)
            except (TypeError, ValueError):
                continue
            yield out


def failure_of(case: Case) -> str | None:
    """What is wrong with the answers about the case; None when nothing is."""
    try:
        check(case)
    except Wrong as e:
        return str(e)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def smallest(case: Case, failure: str) -> tuple[Case, str]:
    """The case made smaller while it still fails in the same way."""
    head = failure.split(":")[0]

    def fails(new: Case) -> str | None:
        found = failure_of(new)
        return found if found is not None and found.split(":")[0] == head else None

    changed = True
    while changed:
        changed = False
        options = [Case(case.kind, case.domain, e, case.condition, case.free, case.seed) for e in _smaller(case.expr)]
        if case.condition is not None:
            options += [
                Case(case.kind, case.domain, case.expr, c, case.free, case.seed) for c in _smaller(case.condition)
            ]
        for new in sorted(options, key=_size):
            if _size(new) >= _size(case):
                continue
            found = fails(new)
            if found is not None:
                case, failure, changed = new, found, True
                break
    return case, failure


def _size(case: Case) -> int:
    return sum(
        [1 if isinstance(x, IntImm) else 2 for e in (case.expr, case.condition) if e is not None for x in _nodes(e)]
    )
