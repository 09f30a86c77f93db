"""Random linear systems and iterator maps, checked against all points of a box: part of the arith fuzzer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from math import prod
from typing import Any

from tests.arith.evaluate import evaluate
from tilewright import arith, tir
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import post_order_visit


def _term(rng: random.Random, v: Any, most: int = 4) -> Any:
    return v * IntImm("int32", rng.choice([c for c in range(-most, most + 1) if c]))


def linear(rng: random.Random, variables: Sequence[Any]) -> Any:
    """A random linear form, now and then with a symbol or a product in it."""
    out: Any = IntImm("int32", rng.randint(-8, 8))
    for v in rng.sample(list(variables), rng.randint(1, len(variables))):
        out = out + _term(rng, v)
    return out


def _holds(conditions: Sequence[Any], env: dict[Any, int]) -> bool:
    return all([bool(evaluate(c, env)) for c in conditions])


def _inside(ranges: Any, env: dict[Any, int]) -> bool:
    for v, r in ranges.items():
        if v in env:
            low = evaluate(r.min, env)
            if not low <= env[v] < low + evaluate(r.extent, env):
                return False
    return True


def _problem(rng: random.Random, kinds: Sequence[Any]) -> tuple[list[tir.Var], dict[tir.Var, Range], list[PrimExpr]]:
    variables = [tir.Var(n, "int32") for n in "xyz"[: rng.randint(1, 3)]]
    box = {v: Range.from_min_extent(rng.randint(-5, 2), rng.randint(1, 8)) for v in variables}
    relations: list[PrimExpr] = [
        rng.choice(kinds)(linear(rng, variables), linear(rng, variables[: rng.randint(1, 3)]))
        for _ in range(rng.randint(1, 3))
    ]
    if kinds == [tir.EQ] and rng.random() < 0.8:
        # Most systems have a solution.
        point = {v: rng.randint(-4, 4) for v in variables}
        relations = [
            tir.EQ(e, IntImm("int32", evaluate(e, point))) for e in (linear(rng, variables) for _ in relations)
        ]
    if rng.random() < 0.1:
        relations.append(rng.choice(kinds)(tir.floormod(variables[0] + 8, 3), linear(rng, variables)))
    return variables, box, relations


def _points(box: dict[tir.Var, Range]) -> list[dict[tir.Var, int]]:
    spans = [range(int(r.min), int(r.min) + int(r.extent)) for r in box.values()]
    return [dict(zip(box, p, strict=True)) for p in itertools.product(*spans)]


def _no_strangers(exprs: Sequence[Any], known: Sequence[tir.Var]) -> None:
    for e in exprs:
        post_order_visit(e, lambda n: _known(n, known, e))


def _known(n: Any, known: Sequence[tir.Var], e: Any) -> None:
    assert not isinstance(n, tir.Var) or any([n is v for v in known]), f"{n} in {e}"


def check_equations(rng: random.Random) -> bool:
    """Solutions in the box are those that the new variables' ranges and relations give; whether there is one."""
    variables, box, relations = _problem(rng, [tir.EQ])
    ranges = box if rng.random() < 0.7 else {}
    found = arith.solve_linear_equations(relations, variables, ranges)
    solutions = [p for p in _points(box) if _holds(relations, p)]
    text = f"{[str(e) for e in relations]} {box} -> {found}"
    if not found.src_to_dst:
        assert not solutions, text
        return False
    new = found.dst.variables
    _no_strangers([*found.dst.relations, *found.src_to_dst.values()], new)
    seen = set()
    for p in solutions:
        env = {v: evaluate(found.dst_to_src[v], p) for v in new}
        assert _inside(found.dst.ranges, env) and _holds(found.dst.relations, env), text
        assert all([evaluate(found.src_to_dst[v], env) == p[v] for v in variables]), text
        seen.add(tuple(env.values()))
    # And every point of the new system is a solution.
    for values in itertools.product(range(-9, 10), repeat=len(new)) if len(new) < 3 else ():
        env = dict(zip(new, values, strict=True))
        if _inside(found.dst.ranges, env) and _holds(found.dst.relations, env):
            p = {v: evaluate(e, env) for v, e in found.src_to_dst.items()}
            assert _holds(relations, p), text
            assert not ranges or _inside(box, p), text
            assert not ranges or values in seen, text
    return bool(solutions)


def check_inequalities(rng: random.Random) -> bool:
    """Both forms of the result have the solutions of the system; whether there is one."""
    variables, box, relations = _problem(rng, [tir.LE, tir.LT, tir.GE, tir.GT, tir.LE, tir.GE, tir.EQ])
    ranges = box if rng.random() < 0.8 else {}
    points = _points(box)
    solutions = [p for p in points if _holds(relations, p)]
    conditions = arith.int_solver.solve_inequalities_as_condition(relations, variables, ranges)
    text = f"{[str(e) for e in relations]} {box}"
    assert [p for p in points if _holds(conditions, p)] == solutions, f"{text} -> {conditions}"
    found = arith.solve_linear_inequalities(relations, variables, ranges)
    assert isinstance(found, arith.IntConstraints)
    got = [p for p in points if _inside(found.ranges, p) and _holds(found.relations, p)]
    assert got == solutions, f"{text} -> {found}"
    moved = arith.solve_linear_inequalities(relations, variables, ranges, deskew_range=True)
    assert isinstance(moved, arith.IntConstraintsTransform)
    text = f"{text} -> {moved}"
    if not moved.src_to_dst:
        assert not solutions, text
        return False
    new = moved.dst.variables
    _no_strangers([*moved.dst.relations, *moved.src_to_dst.values()], new)
    for p in points:
        env = {v: evaluate(moved.dst_to_src[v], p) for v in new}
        back = all([evaluate(e, env) == p[v] for v, e in moved.src_to_dst.items()])
        inside = back and _inside(moved.dst.ranges, env) and _holds(moved.dst.relations, env)
        assert inside == _holds(relations, p), f"{text} at {p}"
    return bool(solutions)


# Iterator maps


def _index(rng: random.Random, domain: dict[tir.Var, int]) -> list[Any]:
    """Random splits of a random fusion of the iterators: most are maps, some are not."""
    order = list(domain)
    rng.shuffle(order)
    total: Any = None
    extent = 1
    for v in order:
        if rng.random() < 0.08:
            continue
        scale = extent if rng.random() < 0.93 else rng.choice([2, 3, 5])
        total = v * scale if total is None else v * scale + total
        extent *= domain[v]
    if total is None:
        return [order[0] + rng.randint(0, 2)]
    if rng.random() < 0.15:
        total = total + rng.randint(0, 5)
    out: list[Any] = []
    lower = 1
    while lower < extent:
        step = min(rng.choice([d for d in (2, 3, 4, 6, extent) if d > 1]), extent // lower + 1)
        part = tir.floordiv(total, lower)
        if rng.random() < 0.75 and lower * step < extent:
            part = tir.floormod(part, step)
        out.append(part * rng.choice([1, 1, 1, 2]) + rng.choice([0, 0, 0, 3]))
        lower *= step
    if rng.random() < 0.2:
        rng.shuffle(out)
    return out or [total]


def _iterators(rng: random.Random) -> tuple[dict[tir.Var, int], dict[tir.Var, Range], dict[tir.Var, int]]:
    variables = [tir.Var(n, "int32") for n in "ijkl"[: rng.randint(1, 4)]]
    lows = {v: rng.choice([0, 0, 0, 0, 2, -3]) for v in variables}
    domain = {v: rng.choice([1, 2, 3, 4, 6, 8]) for v in variables}
    while prod(domain.values()) > 150:
        domain[rng.choice(variables)] = rng.choice([1, 2, 3])
    return domain, {v: Range.from_min_extent(lows[v], domain[v]) for v in variables}, lows


def check_iter_map(rng: random.Random) -> bool:
    """A map that is found has the values of its indices, keeps what its level says, and its inverse leads back."""
    domain, ranges, lows = _iterators(rng)
    moved = {v: v - lows[v] if lows[v] else v for v in domain}
    indices = [tir.stmt_functor.substitute(e, moved) for e in _index(rng, domain)]
    predicate: Any = True
    if rng.random() < 0.3:
        predicate = rng.choice(_index(rng, domain)) < rng.randint(1, 30)
        predicate = tir.stmt_functor.substitute(predicate, moved) if isinstance(predicate, PrimExpr) else predicate
    level = rng.choice(["bijective", "surjective", "surjective", "nocheck"])
    trivial = rng.random() < 0.7
    found = arith.detect_iter_map(indices, ranges, predicate, level, trivial)
    points = [p for p in _points(ranges) if predicate is True or evaluate(predicate, p)]
    simple = arith.iter_map_simplify(indices, ranges, predicate, level, trivial)
    text = f"{[str(e) for e in indices]} over {ranges} where {predicate}, {level}"
    for p in points:
        for e, s in zip(indices, simple, strict=True):
            assert evaluate(s, p) == evaluate(e, p), f"{text}: {e} -> {s} at {p}"
    for e in indices:
        total = arith.normalize_to_iter_sum(e, ranges)
        plain = arith.normalize_iter_map_to_expr(total)
        for p in _points(ranges):
            assert evaluate(plain, p) == evaluate(e, p), f"normalize_to_iter_sum: {e} over {ranges} -> {total} at {p}"
    if not found.indices or not points:
        return False
    text = f"{text} -> {found}"
    for p in points:
        for e, t in zip(indices, found.indices, strict=True):
            assert evaluate(arith.normalize_iter_map_to_expr(t), p) == evaluate(e, p), text
        assert not evaluate(found.padding_predicate, p), f"{text}: padding at {p}"
    images = {tuple([evaluate(e, p) for e in indices]) for p in points}
    if level == "bijective":
        assert len(images) == len(points), text
    if predicate is True and level != "nocheck" and isinstance(found.padding_predicate, IntImm):
        product = 1
        for d in range(len(indices)):
            product *= len({image[d] for image in images})
        assert product == len(images), f"{text}: the indices are not independent"
    if level == "bijective" and predicate is True:
        outputs = [tir.Var(f"o{d}", "int32") for d in range(len(indices))]
        inverse = arith.inverse_affine_iter_map(found.indices, outputs)
        for p in points:
            env = {o: evaluate(e, p) for o, e in zip(outputs, indices, strict=True)}
            for v, e in inverse.items():
                assert evaluate(e, env) == p[v], f"{text}: the inverse of {v} is {e}"
    _check_division(rng, indices, ranges, predicate, level, points, text)
    return True


def _check_division(
    rng: random.Random, indices: list[Any], ranges: Any, predicate: Any, level: str, points: Any, text: str
) -> None:
    inner = [v for v in ranges if rng.random() < 0.5]
    parts = arith.subspace_divide(indices, ranges, inner, predicate, level)
    if not parts:
        return
    assert len(parts) == len(indices) + 1
    outside, inside = (p.extent for p in parts[-1])
    outer_only = [v for v in ranges if not any([v is w for w in inner])]
    _no_strangers([outside, *[arith.normalize_iter_map_to_expr(a.source) for a, _ in parts[:-1]]], outer_only)
    _no_strangers([inside, *[arith.normalize_iter_map_to_expr(b.source) for _, b in parts[:-1]]], inner)
    for p in points:
        for e, (a, b) in zip(indices, parts[:-1], strict=True):
            first, second = (evaluate(arith.normalize_iter_map_to_expr(m.source), p) for m in (a, b))
            assert first * evaluate(b.extent, p) + second == evaluate(e, p), (
                f"subspace_divide by {inner}: {text} {parts}"
            )
    every = _points(ranges)
    if predicate is not True:
        for p in every:
            both = bool(evaluate(outside, p)) and bool(evaluate(inside, p))
            assert both == bool(evaluate(predicate, p)), f"subspace_divide by {inner}: {text} {parts}"


def check_region(rng: random.Random) -> bool:
    """The upper bound covers what a region touches; the strict and lower ones hold nothing else."""
    domain, ranges, _ = _iterators(rng)
    s = tir.Var("s", "int32")
    mins = [rng.choice([*_index(rng, domain), linear(rng, list(domain)) + s, linear(rng, list(domain))])]
    if rng.random() < 0.4:
        mins.append(rng.choice(_index(rng, domain)))
    region = [Range.from_min_extent(e, rng.choice([1, 1, 2, 3, 5])) for e in mins]
    predicate: Any = True if rng.random() < 0.6 else linear(rng, list(domain)) < rng.randint(0, 12)
    at = {s: rng.randint(-3, 3)}
    points = [{**p, **at} for p in _points(ranges) if predicate is True or evaluate(predicate, p)]
    touched = {
        tuple([evaluate(r.min, p) + o for r, o in zip(region, offsets, strict=True)])
        for p in points
        for offsets in itertools.product(*[range(int(r.extent)) for r in region])
    }
    text = f"{region} over {ranges} where {predicate}"

    def ends(found: Any) -> list[tuple[float, float]]:
        out = []
        for f in found:
            low = float("-inf") if f.min_value is arith.neg_inf() else evaluate(f.min_value, at)
            out.append((low, float("inf") if f.max_value is arith.pos_inf() else evaluate(f.max_value, at)))
        return out

    upper = ends(arith.estimate_region_upper_bound(region, ranges, predicate))
    for t in touched:
        assert all([low <= c <= high for c, (low, high) in zip(t, upper, strict=True)]), f"{text}: {upper}, {t}"
    said = False
    for estimate in (arith.estimate_region_strict_bound, arith.estimate_region_lower_bound):
        found = estimate(region, ranges, predicate)
        if found is None or not touched:
            continue
        said = True
        box = [range(int(low), int(high) + 1) for low, high in ends(found)]
        inside = set(itertools.product(*box))
        assert inside <= touched, f"{estimate.__name__}: {text}: {found}, {sorted(inside - touched)[:3]}"
        if estimate is arith.estimate_region_strict_bound:
            assert inside == touched, f"{estimate.__name__}: {text}: {found}, {sorted(touched - inside)[:3]}"
    return said
