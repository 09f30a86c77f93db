"""Layers that create their own weight variables, named after the layer."""

from __future__ import annotations

from typing import Any

from tilewright.relay import op
from tilewright.relay.cards.card import constructor, several
from tilewright.relay.expr import Expr, var


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    **kwargs: Any,
) -> Expr:
    """nn.batch_norm of which only the data is wanted; what is not given is a parameter `name`_gamma, and so on."""
    name = kwargs.pop("name", "")
    return several("nn.batch_norm")(
        data,
        gamma if gamma is not None else var(name + "_gamma"),
        beta if beta is not None else var(name + "_beta"),
        moving_mean if moving_mean is not None else var(name + "_moving_mean"),
        moving_var if moving_var is not None else var(name + "_moving_var"),
        **kwargs,
    )[0]


def _weighted(kind: str, data: Expr, weight: Expr | None, kwargs: dict[str, Any]) -> Expr:
    name = kwargs.pop("name", "")
    return constructor(f"nn.{kind}")(data, weight if weight is not None else var(name + "_weight"), **kwargs)


def conv1d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv1d; its weight is the parameter `name`_weight unless given."""
    return _weighted("conv1d", data, weight, kwargs)


def conv2d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv2d; its weight is the parameter `name`_weight unless given."""
    return _weighted("conv2d", data, weight, kwargs)


def conv3d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv3d; its weight is the parameter `name`_weight unless given."""
    return _weighted("conv3d", data, weight, kwargs)


def conv1d_transpose(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv1d_transpose; its weight is the parameter `name`_weight unless given."""
    return _weighted("conv1d_transpose", data, weight, kwargs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv2d_transpose; its weight is the parameter `name`_weight unless given."""
    return _weighted("conv2d_transpose", data, weight, kwargs)


def dense_add_bias(
    data: Expr, weight: Expr | None = None, bias: Expr | None = None, units: int | None = None, **kwargs: Any
) -> Expr:
    """nn.dense and nn.bias_add; weight and bias are the parameters `name`_weight and `name`_bias unless given."""
    name = kwargs.pop("name", "")
    w = weight if weight is not None else var(name + "_weight")
    b = bias if bias is not None else var(name + "_bias")
    return constructor("nn.bias_add")(op.nn.dense(data, w, units, **kwargs), b, axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The weights' layout that goes with one of data. Raises ValueError for layouts that have none."""
    layouts = {
        "NCHW": "OIHW",
        "NCDHW": "OIDHW",
        "NHWC": "HWOI" if is_depthwise else "HWIO",
        "NDHWC": "DHWOI" if is_depthwise else "DHWIO",
    }
    if data_layout not in layouts:
        raise ValueError(f"there is no kernel layout for data in {data_layout}; there is for {', '.join(layouts)}")
    return layouts[data_layout]


__all__ = [
    "batch_norm_infer",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv_kernel_layout",
    "dense_add_bias",
]
