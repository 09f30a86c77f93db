"""Computes of strategies from topi functions: each wrapper takes a function of an operator's tensors and attributes in a fixed
order, and returns `f(attrs, inputs, out_type)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Compute = Callable[[Any, Sequence[Any], Any], list[Any]]
Wrapper = Callable[..., Compute]


def listed(made: Any) -> list[Any]:
    """The results of a compute as a list."""
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _out_dtype(attrs: Any, inputs: Sequence[Any]) -> str:
    return str(attrs.out_dtype or inputs[0].dtype)


def _value(attrs: Any, inputs: Sequence[Any], name: str) -> Any:
    if name == "out_dtype":
        return _out_dtype(attrs, inputs)
    value = getattr(attrs, name)
    return tuple(value) if isinstance(value, (list, tuple)) else value


def get_auto_scheduler_rewritten_layout(attrs: Any) -> str:
    """The layout that a search of auto_scheduler gave weights, if an operator's attributes name one; else ""."""
    return str(getattr(attrs, "auto_scheduler_rewritten_layout", ""))


def get_meta_schedule_original_shape(attrs: Any) -> Any:
    """The shape of weights before meta_schedule changed it, if an operator's attributes name one; else None."""
    return getattr(attrs, "meta_schedule_original_shape", None)


def _rewritten(attrs: Any, auto_scheduler: bool, meta_schedule: bool) -> list[Any]:
    """The last arguments of computes whose weights searches may have rewritten."""
    if auto_scheduler:
        return [get_auto_scheduler_rewritten_layout(attrs)]
    return ["", get_meta_schedule_original_shape(attrs)] if meta_schedule else []


def attributes_after_tensors(name: str, order: str) -> Wrapper:
    """A wrapper for functions of all tensors, then these attributes in order; "name=" passes one by name."""
    words = order.split()

    def wrap(topi_compute: Callable[..., Any]) -> Compute:
        def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
            given = [_value(attrs, inputs, w) for w in words if not w.endswith("=")]
            named = {w[:-1]: _value(attrs, inputs, w[:-1]) for w in words if w.endswith("=")}
            return listed(topi_compute(*inputs, *given, **named))

        return compute

    wrap.__name__ = wrap.__qualname__ = name
    wrap.__doc__ = f"From `f(tensors..., {', '.join(words)})`."
    return wrap


def wrap_compute_conv2d(
    topi_compute: Callable[..., Any],
    *,
    need_data_layout: bool = False,
    need_kernel_layout: bool = False,
    need_out_layout: bool = False,
    has_groups: bool = False,
    need_auto_scheduler_layout: bool = False,
    need_meta_schedule_layout: bool = False,
) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilation[, groups][, data_layout][, kernel_layout][, out_layout], out_dtype[, rewritten
    layout[, original shape]])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        layout = attrs.data_layout
        given = [*inputs, tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilation)]
        given += [attrs.groups] if has_groups else []
        given += [layout] if need_data_layout else []
        given += [attrs.kernel_layout] if need_kernel_layout else []
        given += [attrs.out_layout or layout] if need_out_layout else []
        rewritten = _rewritten(attrs, need_auto_scheduler_layout, need_meta_schedule_layout)
        return listed(topi_compute(*given, _out_dtype(attrs, inputs), *rewritten))

    return compute


def wrap_compute_dense(
    topi_compute: Callable[..., Any], need_auto_scheduler_layout: bool = False, need_meta_schedule_layout: bool = False
) -> Compute:
    """Wraps `f(data, weight, bias, out_dtype[, rewritten layout[, original shape]])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        rewritten = _rewritten(attrs, need_auto_scheduler_layout, need_meta_schedule_layout)
        return listed(topi_compute(*inputs[:2], None, _out_dtype(attrs, inputs), *rewritten))

    return compute


def wrap_compute_matmul(
    topi_compute: Callable[..., Any], need_auto_scheduler_layout: bool = False, need_meta_schedule_layout: bool = False
) -> Compute:
    """Wraps `f(a, b, bias, out_dtype, transpose_a, transpose_b[, rewritten layout[, original shape]])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        rewritten = _rewritten(attrs, need_auto_scheduler_layout, need_meta_schedule_layout)
        flags = attrs.transpose_a, attrs.transpose_b
        return listed(topi_compute(*inputs[:2], None, _out_dtype(attrs, inputs), *flags, *rewritten))

    return compute


def wrap_compute_batch_matmul(
    topi_compute: Callable[..., Any],
    *,
    need_auto_scheduler_layout: bool = False,
    need_meta_schedule_layout: bool = False,
    need_out_dtype: bool = False,
) -> Compute:
    """Wraps `f(a, b, shape of the result[, out_dtype, transpose_a, transpose_b][, rewritten layout[, original shape]])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        more = [_out_dtype(attrs, inputs), attrs.transpose_a, attrs.transpose_b] if need_out_dtype else []
        more += _rewritten(attrs, need_auto_scheduler_layout, need_meta_schedule_layout)
        return listed(topi_compute(*inputs[:2], out_type.shape, *more))

    return compute


def wrap_compute_softmax(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(data, axis)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(inputs[0], attrs.axis))


def wrap_compute_conv2d_transpose(
    topi_compute: Callable[..., Any], has_groups: bool = False, add_layout: bool = False
) -> Compute:
    """Wraps `f(data, weight, strides, padding, out_dtype, output_padding[, layout][, groups])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), _out_dtype(attrs, inputs), tuple(attrs.output_padding)]
        given += [attrs.data_layout] if add_layout else []
        return listed(topi_compute(*inputs, *given, *([attrs.groups] if has_groups else [])))

    return compute


def wrap_compute_conv1d_transpose(topi_compute: Callable[..., Any], has_groups: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, out_dtype, output_padding[, groups])`."""
    return wrap_compute_conv2d_transpose(topi_compute, has_groups)


def wrap_compute_conv3d_transpose(topi_compute: Callable[..., Any], has_groups: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, out_dtype, output_padding[, groups])`."""
    return wrap_compute_conv2d_transpose(topi_compute, has_groups)


def wrap_compute_conv3d(
    topi_compute: Callable[..., Any],
    need_layout: bool = False,
    need_auto_scheduler_layout: bool = False,
    need_meta_schedule_layout: bool = False,
) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilation, groups[, layout], out_dtype[, rewritten layout[, original shape]])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilation), attrs.groups]
        given += [attrs.data_layout] if need_layout else []
        rewritten = _rewritten(attrs, need_auto_scheduler_layout, need_meta_schedule_layout)
        return listed(topi_compute(*inputs, *given, _out_dtype(attrs, inputs), *rewritten))

    return compute


def wrap_compute_conv2d_backward_weight(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(adjoint of the result, data, kernel_size, padding, strides, dilation, groups, layout, out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        window = tuple(out_type.shape[2:4] if attrs.grad_layout == "NCHW" else out_type.shape[1:3])
        given = [window, tuple(attrs.padding), tuple(attrs.strides), tuple(attrs.dilation), attrs.groups]
        return listed(topi_compute(*inputs, *given, attrs.grad_layout, str(out_type.dtype)))

    return compute


def wrap_compute_dilation2d(topi_compute: Callable[..., Any], need_data_layout: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilations[, data_layout], out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilations)]
        given += [attrs.data_layout] if need_data_layout else []
        return listed(topi_compute(*inputs, *given, _out_dtype(attrs, inputs)))

    return compute


def wrap_topi_compute(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(tensors...)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(*inputs))


def wrap_compute_concat(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(list of tensors, axis)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(inputs, attrs.axis))


def wrap_compute_einsum(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(equation, tensors...)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(attrs.equation, *inputs))


def wrap_compute_argwhere(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(shape of the result, condition)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(out_type.shape, *inputs))


def wrap_compute_stft(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(data, n_fft, hop_length, win_length, window, normalized, onesided, shape of the result)`."""
    return lambda attrs, inputs, out_type: listed(
        topi_compute(
            inputs[0],
            attrs.n_fft,
            attrs.hop_length,
            attrs.win_length,
            inputs[1],
            attrs.normalized,
            attrs.onesided,
            out_type.shape,
        )
    )


def wrap_compute_layout_transform(topi_compute: Callable[..., Any], schedule_rule: str = "None") -> Compute:
    """Wraps `f(data, source layout, layout of the result, schedule_rule)`."""
    return lambda attrs, inputs, out_type: listed(
        topi_compute(inputs[0], attrs.src_layout, attrs.dst_layout, schedule_rule)
    )


def wrap_compute_sparse_reshape(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(tensors..., shape of each result)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(*inputs, *[t.shape for t in out_type.fields]))


def wrap_compute_sparse_fill_empty_rows(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(tensors..., shape of each result)`."""
    return wrap_compute_sparse_reshape(topi_compute)


_ORDERS = {
    "all_class_nms": "output_format",
    "get_valid_counts": "id_index score_index",
    "nms": "force_suppress top_k coord_start score_index id_index return_indices invalid_to_bottom",
    "regular_nms": "max_detections_per_class max_detections num_classes iou_threshold score_threshold",
    "argsort": "axis= is_ascend= dtype=",
    "bitserial_conv2d": "strides padding activation_bits weight_bits pack_dtype out_dtype unipolar",
    "bitserial_dense": "data_bits weight_bits pack_dtype out_dtype unipolar",
    "dft": "inverse",
    "invert_permutation": "",
    "multibox_prior": "sizes ratios steps offsets clip",
    "multibox_transform_loc": "clip threshold variances keep_background",
    "multinomial": "num_samples",
    "proposal": ("scales ratios feature_stride threshold rpn_pre_nms_top_n rpn_post_nms_top_n rpn_min_size iou_loss"),
    "sliding_window": "axis window_shape strides",
    "sparse_add": "",
    "sparse_conv2d": "layout kernel_size",
    "threefry_generate": "out_shape",
    "threefry_split": "",
    "uniform": "out_shape out_dtype",
    "unique": "sorted return_counts",
    "batch_norm": "axis epsilon center scale",
    "conv1d": "strides padding dilation out_dtype",
    "correlation": "kernel_size max_displacement stride1 stride2 padding is_multiply",
    "deformable_conv2d": "strides padding dilation deformable_groups groups out_dtype",
    "group_conv1d": "strides padding dilation groups out_dtype",
    "roi_align": "pooled_size= spatial_scale= sample_ratio= mode= aligned=",
    "roi_pool": "pooled_size spatial_scale",
    "scanop": "axis dtype exclusive",
    "scatter_elements": "axis reduction",
    "scatter_nd": "mode",
    "searchsorted": "right dtype",
    "sort": "axis= is_ascend=",
    "sparse_dense": "sparse_lhs",
    "sparse_transpose": "",
    "topk": "k axis ret_type is_ascend dtype",
    "trilu": "upper",
}
"""Operator -> the order of its attributes."""

_ALL: tuple[Wrapper, ...] = (
    wrap_compute_conv2d, wrap_compute_dense, wrap_compute_matmul, wrap_compute_batch_matmul, wrap_compute_softmax,
    wrap_compute_conv2d_transpose, wrap_compute_conv3d, wrap_compute_dilation2d, wrap_topi_compute, wrap_compute_concat,
    wrap_compute_argwhere, wrap_compute_stft, wrap_compute_einsum, wrap_compute_layout_transform, wrap_compute_sparse_reshape,
    wrap_compute_sparse_fill_empty_rows, wrap_compute_conv1d_transpose, wrap_compute_conv3d_transpose,
    wrap_compute_conv2d_backward_weight, *[attributes_after_tensors(f"wrap_compute_{name}", order) for name, order in _ORDERS.items()],
)  # fmt: skip
WRAPPERS: dict[str, Wrapper] = {f.__name__: f for f in _ALL}
"""All wrappers, by name."""
