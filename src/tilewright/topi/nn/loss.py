"""Losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import broadcast, tag
from tilewright.topi.indexing import data_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.reduction import sum as total_of
from tilewright.topi.utils import as_int

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


def nll_loss(
    predictions: te.Tensor, targets: te.Tensor, weights: te.Tensor, reduction: str, ignore_index: int
) -> te.Tensor:
    """-predictions[n, targets[n, ..], ..] * weights[targets[n, ..]], and 0 where the target is `ignore_index`. predictions (batch, classes,
    ..), targets (batch, ..), weights (classes,). reduction: "mean" divides the sum by the sum of the weights, "sum" is the sum, "none"
    keeps all elements. Targets out of bounds are clipped."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'nll_loss: reduction must be "mean", "sum" or "none", but is {reduction!r}')
    skipped, zero = tir.const(ignore_index, targets.dtype), tir.const(0, predictions.dtype)

    def kind(*i: PrimExpr) -> PrimExpr:
        return data_index(targets(*i), as_int(weights.shape[0]), "signed")

    def term(*i: PrimExpr) -> Any:
        value = -predictions(i[0], kind(*i), *i[1:]) * weights(kind(*i))
        return tir.if_then_else(tir.EQ(targets(*i), skipped), zero, value)

    def share(*i: PrimExpr) -> Any:
        return tir.if_then_else(tir.EQ(targets(*i), skipped), zero, weights(kind(*i)))

    terms = compute(targets.shape, term, name="nll", tag=tag.INJECTIVE)
    if reduction == "none":
        return terms
    total = total_of(terms)
    if reduction == "sum":
        return total
    shares = compute(targets.shape, share, name="nll_weights", tag=tag.INJECTIVE)
    return broadcast.divide(total, total_of(shares))
