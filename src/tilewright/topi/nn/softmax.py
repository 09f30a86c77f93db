"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.reduction import reduce
from tilewright.topi.utils import normalize_axis, shape_of


def _parts(x: te.Tensor, axis: int) -> tuple[int, te.Tensor]:
    at = normalize_axis(axis, len(x.shape))
    return at, reduce(x, [at], False, te.max, lambda v, _: v, "T_softmax_maxelem")


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`: row maximum, exponentials, row sum, division."""
    at, top = _parts(x, axis)
    e = compute(
        x.shape, lambda *i: tir.exp(x(*i) - top(*i[:at], *i[at + 1 :])), name="T_softmax_exp", tag=tag.BROADCAST
    )
    total = reduce(e, [at], False, te.sum, lambda v, _: v, "T_softmax_expsum")
    return compute(
        x.shape,
        lambda *i: e(*i) / total(*i[:at], *i[at + 1 :]),
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": at},
    )


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`."""
    at, top = _parts(x, axis)
    shape = shape_of(x)
    k = te.reduce_axis((0, shape[at]), name="k")

    def row(*i: Any) -> Any:
        return te.sum(tir.exp(x(*i[:at], k.var, *i[at:]) - top(*i)), axis=[k])

    total = compute(shape[:at] + shape[at + 1 :], row, name="T_softmax_expsum", tag=tag.COMM_REDUCE)

    def element(*i: Any) -> Any:
        rest = (*i[:at], *i[at + 1 :])
        return x(*i) - top(*rest) - tir.log(total(*rest))

    return compute(shape, element, name="T_log_softmax", tag="log_softmax_output", attrs={"axis": at})
