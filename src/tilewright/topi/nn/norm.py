"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.reduction import reduce
from tilewright.topi.utils import as_int, normalize_axes, normalize_axis, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def batch_norm(
    data: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    moving_mean: te.Tensor,
    moving_var: te.Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> list[te.Tensor]:
    """(data - mean) / sqrt(var + epsilon) * gamma + beta along `axis`, with the given statistics. Returns [result, mean, var]."""
    at = normalize_axis(axis, len(data.shape))

    def element(*i: Var) -> Any:
        c = i[at]
        v = (data(*i) - moving_mean(c)) / tir.sqrt(moving_var(c) + tir.const(epsilon, moving_var.dtype))
        v = v * gamma(c) if scale else v
        return v + beta(c) if center else v

    return [compute(data.shape, element, name="T_batch_norm", tag=tag.BROADCAST), moving_mean, moving_var]


def _over(extents: Sequence[Any], dtype: str) -> PrimExpr:
    number = prod(extents)
    return tir.const(number, dtype) if isinstance(number, int) else to(number, dtype)


def _normalise(data: te.Tensor, axes: list[int], epsilon: float, name: str, affine: Any) -> te.Tensor:
    """The normalised data. The statistics take two passes (sums, then sums of squared distances, without cancellation)."""
    shape = shape_of(data)
    number = _over([shape[a] for a in axes], data.dtype)
    total = reduce(data, axes, False, te.sum, lambda v, _: v, f"{name}_sum")

    def rest(index: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [p for k, p in enumerate(index) if k not in axes]

    def square(v: PrimExpr, index: list[Var]) -> PrimExpr:
        d = v - total(*rest(index)) / number
        return d * d

    spread = reduce(data, axes, False, te.sum, square, f"{name}_var", beyond=0.0)

    def element(*i: Var) -> Any:
        at = rest(i)
        deviation = tir.sqrt(spread(*at) / number + tir.const(epsilon, data.dtype))
        return affine((data(*i) - total(*at) / number) / deviation, i)

    return compute(shape, element, name=f"T_{name}", tag=tag.BROADCAST)


def layer_norm(
    data: te.Tensor, gamma: te.Tensor | None, beta: te.Tensor | None, axis: int | Sequence[int], epsilon: float = 1e-5
) -> te.Tensor:
    """Zero mean and unit variance over `axis`, then times gamma plus beta (of the shape of those axes)."""
    axes = normalize_axes(axis, len(data.shape))

    def affine(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        at = [i[a] for a in axes]
        v = v * gamma(*at) if gamma is not None else v
        return v + beta(*at) if beta is not None else v

    return _normalise(data, axes, epsilon, "layer_norm", affine)


def instance_norm(
    data: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """Zero mean and unit variance over all axes except the batch (0) and `axis`, then times gamma plus beta along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    axes = [k for k in range(1, len(data.shape)) if k != at]

    def affine(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        v = v * gamma(i[at]) if scale else v
        return v + beta(i[at]) if center else v

    return _normalise(data, axes, epsilon, "instance_norm", affine)


def group_norm(
    data: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """Like instance_norm, over `num_groups` groups of neighbouring channels."""
    from tilewright.topi.transform import reshape

    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))
    size = as_int(shape[at] // num_groups)
    split = reshape(data, [*shape[:at], num_groups, size, *shape[at + 1 :]])
    axes = [k for k in range(1, len(shape) + 1) if k != at]

    def affine(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        c = i[at] * size + i[at + 1]
        v = v * gamma(c) if scale else v
        return v + beta(c) if center else v

    return reshape(_normalise(split, axes, epsilon, "group_norm", affine), shape)


def lrn(
    data: te.Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2.0
) -> te.Tensor:
    """data / (bias + alpha / size * sum of squares of the `size` neighbours along `axis`) ** beta."""
    at = normalize_axis(axis, len(data.shape))
    before, after = [0] * len(data.shape), [0] * len(data.shape)
    before[at], after[at] = (size - 1) // 2, size - 1 - (size - 1) // 2
    padded = pad(data, before, after, 0.0, name="pad_temp")
    k = te.reduce_axis((0, size), name="rxs")

    def near(*i: Var) -> PrimExpr:
        v = padded(*i[:at], i[at] + k.var, *i[at + 1 :])
        return te.sum(v * v, axis=[k])

    squares = compute(data.shape, near, name="sqr_sum", tag=tag.COMM_REDUCE)

    def element(*i: Var) -> Any:
        base = tir.const(bias, data.dtype) + squares(*i) * tir.const(alpha / size, data.dtype)
        return data(*i) / _power(base, beta)

    return compute(data.shape, element, name="T_lrn", tag=tag.BROADCAST)


def _power(base: PrimExpr, exponent: float) -> PrimExpr:
    # Networks use 0.75, 0.5 and 1. Roots are more exact than pow, and much cheaper.
    if exponent == 0.75:
        root = tir.sqrt(base)
        return root * tir.sqrt(root)
    if exponent == 0.5:
        return tir.sqrt(base)
    return base if exponent == 1.0 else tir.pow(base, tir.const(exponent, base.dtype))


def l2_normalize(data: te.Tensor, eps: float, axis: Sequence[int] | int | None = None) -> te.Tensor:
    """data / sqrt(max(sum of squares along `axis`, eps))."""
    axes = normalize_axes(axis, len(data.shape))
    total = reduce(data, axes, False, te.sum, lambda v, _: v * v, "l2_sum")

    def element(*i: Var) -> Any:
        rest = [p for k, p in enumerate(i) if k not in axes]
        return data(*i) / tir.sqrt(tir.max(total(*rest), tir.const(eps, data.dtype)))

    return compute(data.shape, element, name="T_l2_normalize", tag=tag.BROADCAST)
