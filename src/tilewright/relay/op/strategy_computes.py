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


def _wrapper(name: str, order: str) -> Wrapper:
    """A wrapper for functions of all tensors, then these attributes in order; "name=" passes one by name."""
    words = order.split()

    def wrap(topi_compute: Callable[..., Any]) -> Compute:
        def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
            given = [_value(attrs, inputs, w) for w in words if not w.endswith("=")]
            named = {w[:-1]: _value(attrs, inputs, w[:-1]) for w in words if w.endswith("=")}
            return listed(topi_compute(*inputs, *given, **named))

        return compute

    wrap.__name__ = wrap.__qualname__ = f"wrap_compute_{name}"
    wrap.__doc__ = f"From `f(tensors..., {', '.join(words)})`."
    return wrap


def wrap_compute_conv2d(
    topi_compute: Callable[..., Any],
    *,
    need_data_layout: bool = False,
    need_kernel_layout: bool = False,
    need_out_layout: bool = False,
    has_groups: bool = False,
) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilation[, groups][, data_layout][, kernel_layout][, out_layout], out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        layout = attrs.data_layout
        given = [*inputs, tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilation)]
        given += [attrs.groups] if has_groups else []
        given += [layout] if need_data_layout else []
        given += [attrs.kernel_layout] if need_kernel_layout else []
        given += [attrs.out_layout or layout] if need_out_layout else []
        return listed(topi_compute(*given, _out_dtype(attrs, inputs)))

    return compute


def wrap_compute_dense(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(data, weight, bias, out_dtype)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(*inputs[:2], None, _out_dtype(attrs, inputs)))


def wrap_compute_matmul(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(a, b, bias, out_dtype, transpose_a, transpose_b)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        dtype = _out_dtype(attrs, inputs)
        return listed(topi_compute(*inputs[:2], None, dtype, attrs.transpose_a, attrs.transpose_b))

    return compute


def wrap_compute_batch_matmul(topi_compute: Callable[..., Any], *, need_out_dtype: bool = False) -> Compute:
    """Wraps `f(a, b, shape of the result[, out_dtype, transpose_a, transpose_b])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        more = [_out_dtype(attrs, inputs), attrs.transpose_a, attrs.transpose_b] if need_out_dtype else []
        return listed(topi_compute(*inputs[:2], out_type.shape, *more))

    return compute


def wrap_compute_softmax(topi_compute: Callable[..., Any]) -> Compute:
    """Wraps `f(data, axis)`."""
    return lambda attrs, inputs, out_type: listed(topi_compute(inputs[0], attrs.axis))


def wrap_compute_conv2d_transpose(topi_compute: Callable[..., Any], has_groups: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, out_dtype, output_padding[, groups])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), _out_dtype(attrs, inputs), tuple(attrs.output_padding)]
        return listed(topi_compute(*inputs, *given, *([attrs.groups] if has_groups else [])))

    return compute


def wrap_compute_conv3d(topi_compute: Callable[..., Any], need_layout: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilation, groups[, layout], out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilation), attrs.groups]
        given += [attrs.data_layout] if need_layout else []
        return listed(topi_compute(*inputs, *given, _out_dtype(attrs, inputs)))

    return compute


def wrap_compute_dilation2d(topi_compute: Callable[..., Any], need_data_layout: bool = False) -> Compute:
    """Wraps `f(data, weight, strides, padding, dilations[, data_layout], out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        given = [tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilations)]
        given += [attrs.data_layout] if need_data_layout else []
        return listed(topi_compute(*inputs, *given, _out_dtype(attrs, inputs)))

    return compute


_ORDERS = {
    "argsort": "axis= is_ascend= dtype=",
    "batch_norm": "axis epsilon center scale",
    "conv1d": "strides padding dilation out_dtype",
    "conv1d_transpose": "strides padding out_dtype output_padding",
    "conv3d_transpose": "strides padding out_dtype output_padding",
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

WRAPPERS: dict[str, Wrapper] = {
    f.__name__: f
    for f in (
        wrap_compute_conv2d, wrap_compute_dense, wrap_compute_matmul, wrap_compute_batch_matmul, wrap_compute_softmax,
        wrap_compute_conv2d_transpose, wrap_compute_conv3d, wrap_compute_dilation2d,
        *[_wrapper(name, order) for name, order in _ORDERS.items()],
    )
}  # fmt: skip
"""All wrappers, by name."""
