"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.math import reals
from tilewright.topi.reduction import largest_number, reduce
from tilewright.topi.utils import normalize_axis, prod, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var

FEW_COLUMNS = 8
"""Columns behind the axis below which exponentials are computed apart: no vectors run along so few in their sum."""


def _parts(x: te.Tensor, axis: int) -> tuple[int, te.Tensor]:
    at = normalize_axis(axis, len(x.shape))
    # NaN need not be kept here, since the sum of the exponentials is NaN.
    return at, reduce(x, [at], False, largest_number, lambda v, _: v, "T_softmax_maxelem")


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`. Exponentials are multiplied by the inverse of the sum."""
    x = reals(x)
    at, top = _parts(x, axis)
    e = compute(
        x.shape, lambda *i: tir.exp(x(*i) - top(*i[:at], *i[at + 1 :])), name="T_softmax_exp", tag=tag.BROADCAST
    )
    total = reduce(e, [at], False, te.sum, lambda v, _: v, "T_softmax_expsum")
    return compute(
        x.shape,
        lambda *i: e(*i) * (1.0 / total(*i[:at], *i[at + 1 :])),
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": at},
    )


def softmax_common(x: te.Tensor, axis: int, use_fast_exp: bool) -> te.Tensor:
    """`softmax`, whose exponential is both fast and exact."""
    del use_fast_exp
    return softmax(x, axis)


fast_softmax = softmax


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`."""
    at, top = _parts(x, axis)

    def rest(i: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [*i[:at], *i[at + 1 :]]

    def power(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        return tir.exp(v - top(*rest(i)))

    columns = prod(shape_of(x)[at + 1 :])
    if isinstance(columns, int) and 1 < columns < FEW_COLUMNS:
        e = compute(x.shape, lambda *i: power(x(*i), i), name="T_softmax_exp", tag=tag.BROADCAST)
        total = reduce(e, [at], False, te.sum, lambda v, _: v, "T_softmax_expsum")
    else:
        total = reduce(x, [at], False, te.sum, power, "T_softmax_expsum", beyond=0.0)
    log = compute(total.shape, lambda *i: tir.log(total(*i)), name="T_softmax_log", tag=tag.ELEMWISE)

    def element(*i: Var) -> Any:
        return x(*i) - top(*rest(i)) - log(*rest(i))

    return compute(x.shape, element, name="T_log_softmax", tag="log_softmax_output", attrs={"axis": at})
