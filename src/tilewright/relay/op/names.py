"""Public functions that are not operators: aliases, and functions that make several calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import constructor
from tilewright.relay.op.arithmetic import randomness, reduction, sparse

ALIASES = {
    "reverse_reshape": "contrib_reverse_reshape",
}
"""Classic names of constructors -> their operators, if these have other names."""


def dropout_raw(data: Any, rate: float = 0.5) -> Any:
    """The call of nn.dropout."""
    return constructor("nn.dropout")(data, rate)


def const(value: Any, dtype: str | None = None) -> Any:
    """A constant, as relay.const makes it."""
    from tilewright.relay.expr import const as made

    return made(value, dtype)


def _blocked(key: str) -> Callable[..., Any]:
    def function(
        data: Any,
        kernel: Any,
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        channels: Any = None,
        kernel_size: Any = None,
        data_layout: str = "NCHW8c",
        kernel_layout: str = "OIHW",
        out_layout: str = "",
        out_dtype: str = "",
        span: BaseSpan | None = None,
    ) -> Any:
        attrs = (strides, padding, dilation, groups, channels, kernel_size, data_layout, kernel_layout)
        return constructor(key)(data, kernel, *attrs, out_layout, out_dtype, span=span)

    function.__name__ = function.__qualname__ = key.rpartition(".")[2].lower()
    function.__doc__ = f"The constructor of `{key}`, with the classic name of its weights and the classic layouts."
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean_variance": reduction.mean_variance,
    "mean_std": reduction.mean_std,
    "segment_sum": sparse.segment_sum,
    "random.threefry_key": randomness.threefry_key,
    "nn.dropout_raw": dropout_raw,
    "nn.const": const,
    "nn.contrib_conv2d_nchwc": _blocked("nn.contrib_conv2d_NCHWc"),
    "nn.contrib_depthwise_conv2d_nchwc": _blocked("nn.contrib_depthwise_conv2d_NCHWc"),
}
"""Functions by public name."""

MODULES = {
    "tensor": """abs acos acosh add asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip concatenate copy
        copy_shape_func cos cosh device_copy divide einsum equal erf exp fixed_point_multiply fixed_point_multiply_per_axis
        floor floor_divide floor_mod greater greater_equal isfinite isinf isnan left_shift less less_equal log log10 log2
        logical_and logical_not logical_or logical_xor maximum minimum mod multiply ndarray_size negative not_equal ones
        ones_like power right_shift round rsqrt shape_of sigmoid sign sin sinh sqrt stack subtract tan tanh trunc trunc_divide
        trunc_mod zeros zeros_like""",
    "transform": """adv_index arange argwhere broadcast_to broadcast_to_like cast cast_like collapse_sum_like collapse_sum_to cumprod
        cumsum dft expand_dims full full_like gather gather_nd invert_permutation layout_transform matrix_set_diag meshgrid one_hot
        reinterpret repeat reshape reshape_like reverse reverse_reshape reverse_sequence scatter_elements scatter_nd segment_sum
        sequence_mask slice_like sliding_window sparse_fill_empty_rows sparse_reshape sparse_to_dense split squeeze stft strided_set
        strided_slice take tile transpose trilu unique unravel_index where""",
    "reduce": "all any argmax argmin logsumexp max mean mean_std mean_variance min prod std sum variance",
    "algorithm": "argsort searchsorted sort topk",
}
"""Operators by the module in which classic programs import them."""
INNER_MODULES = {
    "annotation": {"annotation": ""},
    "image": {"image": ""},
    "nn": {"nn": "", "utils": "tilewright.topi.nn.utils:get_pad_tuple1d tilewright.topi.nn.utils:get_pad_tuple3d"},
    "random": {"kernel": ""},
    "vision": {
        "multibox": "multibox_prior multibox_transform_loc",
        "nms": "all_class_non_max_suppression get_valid_counts non_max_suppression regular_non_max_suppression",
        "rcnn": "proposal roi_align roi_pool",
        "yolo": "yolo_reorg",
    },
}
"""The same for operators whose names have a prefix; none named are all."""
