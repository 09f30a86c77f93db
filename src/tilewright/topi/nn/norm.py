"""Normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.reduction import mean, reduce, variance
from tilewright.topi.transform import squeeze
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
    training: bool = False,
    momentum: float = 0.1,
) -> list[te.Tensor]:
    """(data - mean) / sqrt(var + epsilon) * gamma + beta along `axis`, with the given statistics. Returns [result, mean, var].

    training: with the statistics of the data. The results are then the given ones moved towards those of the data, whose share is
    `momentum`.
    """
    at = normalize_axis(axis, len(data.shape))
    used_mean, used_var, returned = moving_mean, moving_var, [moving_mean, moving_var]
    if training:
        others = [k for k in range(len(data.shape)) if k != at]
        average = mean(data, others, keepdims=True)
        used_mean, used_var = squeeze(average, others), variance(data, average, others)
        returned = [
            compute(old.shape, lambda c, old=old, new=new: _moved(old(c), new(c), momentum), "T_moved", tag.ELEMWISE)
            for old, new in ((moving_mean, used_mean), (moving_var, used_var))
        ]

    def element(*i: Var) -> Any:
        c = i[at]
        v = (data(*i) - used_mean(c)) / tir.sqrt(used_var(c) + tir.const(epsilon, used_var.dtype))
        v = v * gamma(c) if scale else v
        return v + beta(c) if center else v

    return [compute(data.shape, element, name="T_batch_norm", tag=tag.BROADCAST), *returned]


def _moved(old: PrimExpr, new: PrimExpr, share: float) -> PrimExpr:
    return old * tir.const(1 - share, old.dtype) + new * tir.const(share, old.dtype)


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
        one, least = [tir.const(v, data.dtype) for v in (1.0, epsilon)]
        scale = one / tir.sqrt(spread(*at) / number + least)
        return affine((data(*i) - total(*at) / number) * scale, i)

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
    axis: Sequence[int] | None = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    channel_axis: int = 1,
) -> te.Tensor:
    """Zero mean and unit variance over `axis` (by default all axes except the batch and the channels), then times gamma plus beta along
    the channels."""
    at = normalize_axis(channel_axis, len(data.shape))
    axes = [k for k in range(1, len(data.shape)) if k != at] if axis is None else normalize_axes(axis, len(data.shape))

    def affine(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        v = v * gamma(i[at]) if scale else v
        return v + beta(i[at]) if center else v

    return _normalise(data, axes, epsilon, "instance_norm", affine)


def group_norm(
    data: te.Tensor,
    gamma: te.Tensor | None,
    beta: te.Tensor | None,
    num_groups: int,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """Zero mean and unit variance over the channels of each of `num_groups` groups of neighbouring ones and over `axes` (by default all
    except the batch and the channels), then times gamma plus beta along the channels. Either of these can be None."""
    shape = shape_of(data)
    at = normalize_axis(channel_axis, len(shape))
    size = as_int(shape[at] // num_groups)
    # Not reshaped: indices of unknown sizes would be those of flat data.
    split = compute(
        [*shape[:at], num_groups, size, *shape[at + 1 :]],
        lambda *i: data(*i[:at], i[at] * size + i[at + 1], *i[at + 2 :]),
        name="group_norm_groups",
        tag=tag.INJECTIVE,
    )
    others = [k for k in range(1, len(shape)) if k != at] if axes is None else normalize_axes(axes, len(shape))
    over = sorted([at + 1, *[k if k < at else k + 1 for k in others if k != at]])

    def affine(v: PrimExpr, i: Sequence[Var]) -> PrimExpr:
        c = i[at] * size + i[at + 1]
        v = v * gamma(c) if scale and gamma is not None else v
        return v + beta(c) if center and beta is not None else v

    found = _normalise(split, over, epsilon, "group_norm", affine)
    return compute(
        shape,
        lambda *i: found(*i[:at], i[at] // size, i[at] % size, *i[at + 1 :]),
        name="T_group_norm_channels",
        tag=tag.INJECTIVE,
    )


def rms_norm(data: te.Tensor, weight: te.Tensor, axis: int | Sequence[int], epsilon: float = 1e-5) -> te.Tensor:
    """data / sqrt(mean of its squares over `axis` + epsilon) * weight, which has the shape of those axes."""
    axes = normalize_axes(axis, len(data.shape))
    return divided_by_rms(data, axes, epsilon, lambda v, i: v * weight(*[i[a] for a in axes]))


def divided_by_rms(
    data: te.Tensor,
    axes: Sequence[int],
    epsilon: float,
    then: Callable[[PrimExpr, Sequence[Var]], PrimExpr] = lambda v, _: v,
) -> te.Tensor:
    """data / sqrt(mean of its squares over `axes` + epsilon). then: what is made of each element, by its indices."""
    shape = shape_of(data)
    total = reduce(data, axes, False, te.sum, lambda v, _: v * v, "rms_norm_sum")
    number = _over([shape[a] for a in axes], data.dtype)

    def element(*i: Var) -> Any:
        rest = [p for k, p in enumerate(i) if k not in axes]
        scale = tir.rsqrt(total(*rest) / number + tir.const(epsilon, data.dtype))
        return then(data(*i) * scale, i)

    return compute(shape, element, name="T_rms_norm", tag=tag.BROADCAST)


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
