"""Iterator maps: index expressions as sums of splits of loop iterators and of their fusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iterators.builder import (
    Builder,
    NotAffine,
    PaddedFurther,
    build,
    child_analyzer,
)
from tilewright.arith.iterators.divide import inverse_affine_iter_map, subspace_divide
from tilewright.arith.iterators.nodes import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from tilewright.arith.linear import OutOfRange
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.tir.expr import IterVar, Var

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "detect_iter_map",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "subspace_divide",
]


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | int | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
    strict: bool = False,
) -> IterMapResult:
    """The indices as an iterator map of the input iterators. On failure, no indices and the reasons in `errors`.

    With `strict`, maps with padding are refused, and maps with a predicate that the extents of the indices do not show.
    """
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else IterMapLevel(check_level)
    exprs = [as_prim_expr(e) for e in indices]
    builder = Builder(input_iters, child_analyzer(analyzer), simplify_trivial_iterators)
    try:
        sums = build(exprs, builder, as_prim_expr(predicate), level)
        if strict and builder.padded:
            raise NotAffine("an extent is not a multiple of its divisor")
        if strict or level == IterMapLevel.Bijective:
            builder.check_constraints(sums)
        nodes = tuple([builder.node_of(s, e.dtype) for s, e in zip(sums, exprs, strict=True)])
        padding = builder.padding(exprs[0].dtype if exprs else "int32")
    except (NotAffine, OutOfRange) as e:
        return IterMapResult((), (str(e),), IntImm("bool", 0))
    return IterMapResult(nodes, (), padding)


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """The index as a sum of splits, largest scales first, without fusion. The base has all parts that are not splits."""
    expr = as_prim_expr(index)
    builder = Builder(input_iters, Analyzer(), True)
    builder.allow_padding = True
    try:
        total = builder.sum(builder.engine.lin(expr))
    except (NotAffine, PaddedFurther):
        return IterSumExpr((), builder.analyzer.simplify(expr))
    if all([not s.scale.terms for s in total.args]):
        total.args.sort(key=lambda s: -s.scale.const)
    return builder.node_of(total, expr.dtype)


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | int | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[PrimExpr]:
    """The indices, simplified by their iterator map if they have one."""
    child = child_analyzer(analyzer)
    for var, domain in input_iters.items():
        child.bind(var.var if isinstance(var, IterVar) else var, domain)
    with child.constraint_scope(as_prim_expr(predicate)):
        plain = [child.simplify(as_prim_expr(e)) for e in indices]
    found = detect_iter_map(plain, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer)
    if not found.indices:
        return plain
    return [child.simplify(normalize_iter_map_to_expr(e)) for e in found.indices]
