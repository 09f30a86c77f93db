"""Quantised convolutions and pooling in other layouts, as functions for `register_convert_op_layout`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.expr import Expr
from tilewright.relay.op import qnn
from tilewright.relay.op.quantization.quantized_products import vars_of

KERNELS = {
    "NCHW": {"": "OIHW", "transpose": "IOHW"},
    "NHWC": {"": "HWIO", "transpose": "HWOI"},
    "NCW": {"": "OIW"},
    "NCDHW": {"": "OIDHW"},
    "NDHWC": {"": "DHWIO"},
}
"""The layout of weights ("default") by that of the data."""


def _in_layouts(kind: str, attrs: Any, inputs: Sequence[Expr], desired_layouts: Sequence[str], form: str) -> Expr:
    if len(desired_layouts) != 2:
        raise ValueError(f"qnn.{kind} has the layouts of data and weights, but {len(desired_layouts)} are desired")
    data, kernel = desired_layouts
    if data == "default":
        raise ValueError(f"the desired layout of the data of qnn.{kind} must be named")
    if kernel == "default":
        if form not in KERNELS.get(data, {}):
            raise ValueError(f"the layout of the weights must be named for data of qnn.{kind} in {data}")
        kernel = KERNELS[data][form]
    made: Expr = getattr(qnn, kind)(*inputs, **{**vars_of(attrs), "data_layout": data, "kernel_layout": kernel})
    return made


def convert_qnn_conv2d(attrs: Any, inputs: Sequence[Expr], tinfos: Any, desired_layouts: Sequence[str]) -> Expr:
    """The convolution in the desired layouts [of the data, of the weights]; "default" weights go with the data."""
    del tinfos
    return _in_layouts("conv2d", attrs, inputs, desired_layouts, "")


def convert_qnn_conv2d_transpose(
    attrs: Any, inputs: Sequence[Expr], tinfos: Any, desired_layouts: Sequence[str]
) -> Expr:
    """The adjoint of a convolution in the desired layouts [of the data, of the weights]."""
    del tinfos
    return _in_layouts("conv2d_transpose", attrs, inputs, desired_layouts, "transpose")


def convert_qnn_avg_pool2d(attrs: Any, inputs: Sequence[Expr], tinfos: Any, desired_layouts: Sequence[str]) -> Expr:
    """Pooling in the desired layout [of the data]."""
    del tinfos
    (layout,) = desired_layouts
    made: Expr = qnn.avg_pool2d(*inputs, **{**vars_of(attrs), "layout": layout, "out_layout": ""})
    return made


__all__ = ["convert_qnn_avg_pool2d", "convert_qnn_conv2d", "convert_qnn_conv2d_transpose"]
