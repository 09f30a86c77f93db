"""Iterator maps against enumeration of all points of the iteration space."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.arith.evaluate import evaluate
from tilewright import arith, tir
from tilewright.ir import Range
from tilewright.tir import Var

i, j, k, n, m, x, y = (Var(s, "int32") for s in "ijknmxy")


def points(domain: dict[Var, int], predicate: Any = True) -> list[dict[Var, int]]:
    out = [dict(zip(domain, p, strict=True)) for p in itertools.product(*[range(e) for e in domain.values()])]
    return out if predicate is True else [p for p in out if evaluate(predicate, p)]


def check_map(
    indices: list[Any], domain: dict[Var, int], predicate: Any = True, level: str = "bijective"
) -> arith.IterMapResult:
    ranges = {v: Range(0, e) for v, e in domain.items()}
    found = arith.detect_iter_map(indices, ranges, predicate, level)
    if found.indices:
        space = points(domain, predicate)
        for p in space:
            for e, total in zip(indices, found.indices, strict=True):
                assert evaluate(arith.normalize_iter_map_to_expr(total), p) == evaluate(e, p)
        images = [tuple([evaluate(e, p) for e in indices]) for p in space]
        if level == "bijective":
            assert len(set(images)) == len(images)
        if predicate is True:
            product = 1
            for d in range(len(indices)):
                product *= len({image[d] for image in images})
            if level == "bijective" and all([len(t.args) <= 1 for t in found.indices]):
                assert product == len(set(images)), "indices are not independent"
    return found


AFFINE = [
    ([i, j], {i: 4, j: 6}, True),
    ([i // 4, i % 4], {i: 12}, True),
    ([(i * 6 + j) // 4, (i * 6 + j) % 4], {i: 4, j: 6}, True),
    ([(i * 10 + j) // 4, (i * 10 + j) % 4], {i: 8, j: 10}, True),
    ([i * 24 + j * 4 + k], {i: 2, j: 6, k: 4}, True),
    ([(i * 4 + j) // 8, i % 2, j], {i: 8, j: 4}, True),
    ([i % 2 * 4 + j, i // 2], {i: 6, j: 4}, True),
    ([i // 6, i % 6 // 2, i % 2 + 3], {i: 12}, True),
    ([(i * 10 + j) // 5, (i * 10 + j) % 5], {i: 8, j: 10}, i * 10 + j < 75),
    ([i * 10 + j], {i: 8, j: 10}, i * 10 + j < 77),
]
NOT_AFFINE = [
    ([i + j], {i: 4, j: 6}, "do not tile"),
    ([i, i], {i: 4}, "overlap"),
    ([i * j], {i: 4, j: 4}, "not a sum of divisions"),
    ([i // 2], {i: 4}, "leave a gap|do not use all"),
    ([j], {i: 4, j: 4}, r"iterators \['i'\] are not used"),
    ([i // 3, i % 3], {i: 8}, "not a multiple of its divisor"),
    ([tir.max(i, j)], {i: 4, j: 4}, "not a sum of divisions"),
]


@pytest.mark.parametrize("case", range(len(AFFINE)))
def test_bijective(case: int) -> None:
    indices, domain, predicate = AFFINE[case]
    found = check_map(indices, domain, predicate)
    assert found.indices, found.errors


@pytest.mark.parametrize("case", range(len(NOT_AFFINE)))
def test_refused_with_the_reason(case: int) -> None:
    import re

    indices, domain, why = NOT_AFFINE[case]
    found = check_map(indices, domain)
    assert not found.indices and re.search(why, found.errors[0]), found.errors


@pytest.mark.parametrize("seed", range(3))
def test_random_maps(seed: int) -> None:
    """Random divisions of random fusions: what is called bijective is so, and its inverse takes the indices back."""
    rng = random.Random(seed)
    accepted = 0
    for _ in range(120):
        variables = [i, j, k][: rng.randint(1, 3)]
        domain = {v: rng.choice([2, 3, 4, 6, 8]) for v in variables}
        shuffled = variables[:]
        rng.shuffle(shuffled)
        total: Any = None
        extent = 1
        for v in shuffled:
            total = v if total is None else v * extent + total
            extent *= domain[v]
        indices = []
        lower = 1
        while lower < extent:
            step = rng.choice([d for d in (2, 3, 4, 6, extent) if d > 1])
            step = min(step, extent // lower + 1)
            indices.append(
                tir.floormod(tir.floordiv(total, lower), step)
                if rng.random() < 0.7 and lower * step < extent
                else tir.floordiv(total, lower)
            )
            lower *= step
        found = check_map(indices, domain)
        if not found.indices:
            continue
        accepted += 1
        outputs = [Var(f"o{d}", "int32") for d in range(len(indices))]
        inverse = arith.inverse_affine_iter_map(found.indices, outputs)
        for p in points(domain):
            env = {o: evaluate(e, p) for o, e in zip(outputs, indices, strict=True)}
            for v in variables:
                assert evaluate(inverse[v], env) == p[v]
    assert accepted > 20


def test_padding() -> None:
    found = check_map([i // 3, i % 3], {i: 8}, level="surjective")
    assert [int(t.args[0].extent) for t in found.indices] == [3, 3]
    assert not any([evaluate(found.padding_predicate, {i: v}) for v in range(8)])
    assert evaluate(found.padding_predicate, {i: 8})


def test_symbolic_extents() -> None:
    found = arith.detect_iter_map([i // n, i % n, j], {i: Range(0, m * n), j: Range(0, 4)}, True, "bijective")
    assert found.indices, found.errors
    env = {i: 17, n: 5, m: 4, j: 3}
    assert [evaluate(arith.normalize_iter_map_to_expr(t), env) for t in found.indices] == [3, 2, 3]


def test_iter_map_simplify_uses_the_predicate() -> None:
    first, second = arith.iter_map_simplify(
        [(i * 10 + j) // 5, (i * 10 + j) % 5], {i: Range(0, 8), j: Range(0, 10)}, i * 10 + j < 75
    )
    assert str(first) == "i * 2 + j // 5" and str(second) == "j % 5"


def test_ranges_with_a_minimum() -> None:
    found = arith.detect_iter_map([i, j * 2 + 1], {i: Range(3, 7), j: Range(-2, 5)}, True, "surjective")
    for p in ({i: 3, j: -2}, {i: 6, j: 4}):
        assert [evaluate(arith.normalize_iter_map_to_expr(t), p) for t in found.indices] == [p[i], p[j] * 2 + 1]
    inverse = arith.inverse_affine_iter_map(found.indices, [x, y])
    assert evaluate(inverse[i], {x: 5, y: 3}) == 5 and evaluate(inverse[j], {x: 5, y: 3}) == 1


def test_normalize_to_iter_sum() -> None:
    total = arith.normalize_to_iter_sum(j + i * 8 + x, {i: Range(0, 4), j: Range(0, 8)})
    assert [int(s.scale) for s in total.args] == [8, 1] and total.base is x


def test_subspace_divide() -> None:
    domain = {i: Range(0, 8), j: Range(0, 4), k: Range(0, 5)}
    first, second, predicates = arith.subspace_divide([i * 4 + j, k], domain, [j, k])
    assert [int(p.extent) for p in (*first, *second)] == [8, 4, 1, 5]
    for p in points({i: 8, j: 4, k: 5}):
        for (outer, inner), e in zip((first, second), (i * 4 + j, k), strict=True):
            a, b = (evaluate(arith.normalize_iter_map_to_expr(s.source), p) for s in (outer, inner))
            assert a * int(inner.extent) + b == evaluate(e, p)
    assert [int(p.extent) for p in predicates] == [1, 1]


def test_subspace_divide_of_nested_tiles_and_predicates() -> None:
    domain = {i: Range(0, 4), j: Range(0, 3), k: Range(0, 5), x: Range(0, 2)}
    (first, predicates) = arith.subspace_divide([((i * 3 + j) * 5 + k) * 2 + x], domain, [k, x], i * 3 + j < 11)
    assert [int(p.extent) for p in first] == [11, 10]
    assert str(predicates[0].extent) == "i * 3 + j < 11" and int(predicates[1].extent) == 1
    assert arith.subspace_divide([i * 3 + j], {i: Range(0, 4), j: Range(0, 3)}, [i]) == []
    assert arith.subspace_divide([i * 3 + j], {i: Range(0, 4), j: Range(0, 3)}, [j], i * 3 + j < 11) == []


@pytest.mark.parametrize("seed", range(3))
def test_region_bounds(seed: int) -> None:
    """The upper bound covers every index that is touched; the strict one is exactly the touched set."""
    rng = random.Random(seed)
    strict_found = 0
    for _ in range(120):
        domain = {i: rng.choice([1, 3, 4]), j: rng.choice([2, 5]), k: rng.choice([1, 4])}
        ranges = {v: Range(0, e) for v, e in domain.items()}
        terms = [i * rng.choice([1, 2, 4, 5]) + j, i * 2 + k * 3, j // 2 + x, (i * 5 + j) % 4, i - j, k, i * 5 + j + x]
        region = [Range.from_min_extent(rng.choice(terms), rng.choice([1, 1, 2, 3])) for _ in range(rng.randint(1, 2))]
        limit = rng.choice([None, 3, 7])
        predicate = True if limit is None else i * 5 + j < limit
        upper = arith.estimate_region_upper_bound(region, ranges, predicate)
        strict = arith.estimate_region_strict_bound(region, ranges, predicate)
        at = rng.randint(-3, 3)
        touched = [
            tuple(evaluate(r.min, p) + o for r, o in zip(region, offsets, strict=True))
            for p in [{**q, x: at} for q in points(domain, predicate)]
            for offsets in itertools.product(*[range(int(r.extent)) for r in region])
        ]
        for d, s in enumerate(upper):
            low, high = evaluate(s.min_value, {x: at}), evaluate(s.max_value, {x: at})
            assert all([low <= t[d] <= high for t in touched])
        if strict is not None:
            strict_found += 1
            box = [range(evaluate(s.min_value, {x: at}), evaluate(s.max_value, {x: at}) + 1) for s in strict]
            assert set(itertools.product(*box)) == set(touched), f"{region} {strict} {predicate}"
    assert strict_found > 10


def test_eval_set() -> None:
    a = arith.Analyzer()
    a.update(n, arith.ConstIntBound(1, 100))
    s = arith.eval_set(x * 4 + i // 3, {i: Range(0, n)}, a)
    assert str(s.min_value) == "x * 4"
    for size in range(1, 9):
        assert evaluate(s.max_value, {x: 2, n: size}) == 8 + (size - 1) // 3
    both = arith.union([arith.IntSet.interval(0, 3), arith.IntSet.interval(2, 9)])
    assert (int(both.min_value), int(both.max_value)) == (0, 9)
    common = arith.intersect([arith.IntSet.interval(0, 3), arith.IntSet.interval(2, 9)])
    assert (int(common.min_value), int(common.max_value)) == (2, 3)
    assert arith.intersect([arith.IntSet.interval(0, 3), arith.IntSet.interval(5, 9)]).is_nothing()
    assert arith.IntSet.single_point(3).is_single_point()
    lanes = arith.IntSet.vector(tir.Ramp(x, 2, 4))
    assert str(lanes.min_value) == "x" and str(lanes.max_value) == "x + 6"


def test_domain_touched() -> None:
    a = tir.decl_buffer((32, 8), "float32", name="A")
    body = tir.BufferStore(a, a[i * 4 + j + 1, 0] + 1.0, [i * 4 + j, x])
    loop = tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.For(j, 0, 4, tir.ForKind.SERIAL, body))
    stored = arith.domain_touched(loop, a, False, True)
    assert [str(r.min) for r in stored] == ["0", "x"] and [int(r.extent) for r in stored] == [16, 1]
    both = arith.domain_touched(loop, a, True, True)
    assert int(both[0].extent) == 17
    assert arith.domain_touched(loop, tir.decl_buffer((4,), "float32", name="B"), True, True) == []
