"""Converters of StableHLO's operators in TFLite files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.formats.tflite_schema import COMPARISONS
from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.relay.frontend.tflite.ops.movement import updated
from tilewright.relay.frontend.tflite.ops.slicing import dynamic_slice
from tilewright.relay.frontend.tflite.ops.windows import body_function, dilated, windows
from tilewright.support.errors import OpNotImplemented

ELEMENTWISE = {
    "LOGISTIC": "sigmoid", "ADD": "add", "MULTIPLY": "multiply", "MAXIMUM": "maximum", "MINIMUM": "minimum", "ABS": "abs", "COSINE": "cos",
    "EXPONENTIAL": "exp", "FLOOR": "floor", "LOG": "log", "NEGATE": "negative", "POWER": "power", "RSQRT": "rsqrt", "SUBTRACT": "subtract",
    "TANH": "tanh", "SHIFT_LEFT": "left_shift",
}  # fmt: skip
COMPARED = {"EQ": "equal", "NE": "not_equal", "GE": "greater_equal", "GT": "greater", "LE": "less_equal", "LT": "less"}
REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "minimum": "min",
    "maximum": "max",
    "logical_and": "all",
    "logical_or": "any",
}


@tflite_op(*[f"STABLEHLO_{n}" for n in ELEMENTWISE])
def _elementwise(node: Node, *inputs: Value) -> Value:
    return node.call(ELEMENTWISE[node.name.removeprefix("STABLEHLO_")], *inputs)


@tflite_op("STABLEHLO_DIVIDE", "STABLEHLO_REMAINDER")
def _divide(node: Node, a: Value, b: Value) -> Value:
    whole = not a.dtype.startswith("float")
    if node.name.endswith("DIVIDE"):
        return node.call("trunc_divide" if whole else "divide", a, b)
    return node.call("trunc_mod" if whole else "mod", a, b)


@tflite_op("STABLEHLO_CBRT")
def _cbrt(node: Node, x: Value) -> Value:
    return node.call("multiply", node.call("sign", x), node.call("power", node.call("abs", x), 1.0 / 3.0))


@tflite_op("STABLEHLO_AND", "STABLEHLO_OR")
def _logical(node: Node, a: Value, b: Value) -> Value:
    name = node.name.removeprefix("STABLEHLO_").lower()
    return node.call(("logical_" if a.dtype == "bool" else "bitwise_") + name, a, b)


@tflite_op("STABLEHLO_COMPARE")
def _compare(node: Node, a: Value, b: Value) -> Value:
    return node.call(COMPARED[COMPARISONS[int(node.get("comparison_direction"))]], a, b)


@tflite_op("STABLEHLO_SELECT")
def _select(node: Node, condition: Value, x: Value, y: Value) -> Value:
    return node.call("where", condition, x, y)


@tflite_op("STABLEHLO_CLAMP")
def _clamp(node: Node, low: Value, x: Value, high: Value) -> Value:
    return node.call("minimum", node.call("maximum", x, low), high)


@tflite_op("STABLEHLO_CONVERT")
def _convert(node: Node, x: Value) -> Value:
    return node.cast(x, node.out.dtype)


@tflite_op("STABLEHLO_RESHAPE")
def _reshape(node: Node, x: Value) -> Value:
    return node.reshape(x, list(node.out.shape))


@tflite_op("STABLEHLO_TRANSPOSE")
def _transpose(node: Node, x: Value) -> Value:
    return node.transpose(x, _ints(node, "permutation"))


@tflite_op("STABLEHLO_CONCATENATE")
def _concatenate(node: Node, *parts: Value) -> Value:
    return node.call("concatenate", list(parts), axis=int(node.get("dimension")))


@tflite_op("STABLEHLO_BROADCAST_IN_DIM")
def _broadcast(node: Node, x: Value, shape: Value | None = None) -> Value:
    wanted = node.ints(shape, "shape") if shape is not None else list(node.out.shape)
    places = _ints(node, "broadcast_dimensions")
    extents: list[Dim] = [1] * len(wanted)
    for k, axis in enumerate(places):
        extents[axis] = x.shape[k]
    return node.broadcast(node.reshape(x, extents), wanted)


@tflite_op("STABLEHLO_SLICE")
def _slice(node: Node, x: Value) -> Value:
    begin, end, strides = (tuple(_ints(node, n)) for n in ("start_indices", "limit_indices", "strides"))
    return node.call("strided_slice", x, begin=begin, end=end, strides=strides)


def _ints(node: Node, name: str) -> list[int]:
    return [int(n) for n in node.get(name, ())]


def _places(node: Node, starts: Sequence[Value]) -> Value:
    return node.call("stack", [node.reshape(node.cast(s, "int32"), ()) for s in starts], axis=0)


@tflite_op("STABLEHLO_DYNAMIC_SLICE")
def _dynamic_slice(node: Node, x: Value, *starts: Value) -> Value:
    return dynamic_slice(node, x, _places(node, starts), _ints(node, "slice_sizes"))


@tflite_op("STABLEHLO_DYNAMIC_UPDATE_SLICE")
def _dynamic_update(node: Node, x: Value, update: Value, *starts: Value) -> Value:
    return updated(node, x, update, _places(node, starts))


@tflite_op("STABLEHLO_PAD")
def _pad(node: Node, x: Value, fill: Value) -> Value:
    low, high, inside = (_ints(node, n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    return padded(node, dilated(node, x, [n + 1 for n in inside], node.reshape(fill, ())), low, high, fill)


def padded(node: Node, x: Value, low: Sequence[int], high: Sequence[int], fill: Value) -> Value:
    """x padded with `fill`; negative widths crop."""
    if any([n < 0 for n in (*low, *high)]):
        shape = node.static(x)
        x = node.call(
            "strided_slice", x, begin=tuple([max(-n, 0) for n in low]),
            end=tuple([d - max(-n, 0) for d, n in zip(shape, high, strict=True)]),
        )  # fmt: skip
    widths = tuple([(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)])
    return node.call("nn.pad", x, node.reshape(fill, ()), pad_width=widths) if any([a or b for a, b in widths]) else x


@tflite_op("STABLEHLO_IOTA")
def _iota(node: Node) -> Value:
    shape, axis = node.out.shape, int(node.get("iota_dimension"))
    small(shape, "its result")
    line = np.arange(shape[axis]).astype(node.out.dtype).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return Value(array=np.ascontiguousarray(np.broadcast_to(line, shape)))


@tflite_op("STABLEHLO_REDUCE")
def _reduce(node: Node, x: Value, start: Value) -> Value:
    key = body_function(node, int(node.get("body_subgraph_index")))
    made = node.call(REDUCED[key], x, axis=tuple(_ints(node, "dimensions")), keepdims=False)
    return node.call(key, made, node.reshape(start, ()))


@tflite_op("STABLEHLO_REDUCE_WINDOW")
def _reduce_window(node: Node, x: Value, start: Value) -> Value:
    key = body_function(node, int(node.get("body_subgraph_index")))
    window, ones = _ints(node, "window_dimensions"), [1] * x.ndim
    strides, base, spread = (_ints(node, n) or ones for n in ("window_strides", "base_dilations", "window_dilations"))
    widths = _ints(node, "padding") or [0] * (2 * x.ndim)
    wide = padded(node, dilated(node, x, base, node.reshape(start, ())), widths[::2], widths[1::2], start)
    return windows(node, wide, start, key, window, strides, spread)


@tflite_op("STABLEHLO_DOT_GENERAL")
def _dot_general(node: Node, a: Value, b: Value) -> Value:
    batch_a, batch_b, sum_a, sum_b = (
        _ints(node, f"{side}_{what}_dimensions") for what in ("batching", "contracting") for side in ("lhs", "rhs")
    )
    free_a = [k for k in range(a.ndim) if k not in (*batch_a, *sum_a)]
    free_b = [k for k in range(b.ndim) if k not in (*batch_b, *sum_b)]
    shape_a, shape_b = a.shape, b.shape
    lead = [shape_a[k] for k in batch_a]
    depth = [shape_a[k] for k in sum_a]

    def three(x: Value, order: list[int], rows: list[Dim]) -> Value:
        count = [np.prod(np.array(part, object)) if part else 1 for part in (lead, rows, depth)]
        return node.reshape(node.transpose(x, order), count)

    rows_a, rows_b = [shape_a[k] for k in free_a], [shape_b[k] for k in free_b]
    left, right = three(a, [*batch_a, *free_a, *sum_a], rows_a), three(b, [*batch_b, *free_b, *sum_b], rows_b)
    return node.reshape(node.call("nn.batch_matmul", left, right, transpose_b=True), [*lead, *rows_a, *rows_b])


@tflite_op("STABLEHLO_CONVOLUTION")
def _convolution(node: Node, x: Value, w: Value) -> Value:
    spatial_in, spatial_w = (_ints(node, f"{side}_spatial_dimensions") for side in ("input", "kernel"))
    count = len(spatial_in)
    ones = [1] * count
    base = _ints(node, "lhs_dilation") or ones
    if (
        count not in (1, 2, 3)
        or int(node.get("batch_group_count")) not in (0, 1)
        or any(node.get("window_reversal", ()))
    ):
        raise OpNotImplemented(
            "it has more than three spatial axes, groups of the batch, or reversed windows; supported: none of these"
        )
    data = node.transpose(
        x, [int(node.get("input_batch_dimension")), int(node.get("input_feature_dimension")), *spatial_in]
    )
    order = [
        int(node.get("kernel_output_feature_dimension")),
        int(node.get("kernel_input_feature_dimension")),
        *spatial_w,
    ]
    kernel = node.transpose(w, order)
    data = dilated(node, data, [1, 1, *base], node.number(0, x.dtype))
    widths = _ints(node, "padding") or [0] * (2 * count)
    zeros = [0, 0]
    data = padded(node, data, [*zeros, *widths[::2]], [*zeros, *widths[1::2]], node.number(0, x.dtype))
    made = node.call(
        f"nn.conv{count}d", data, kernel, strides=tuple(_ints(node, "window_strides") or ones), padding=(0,) * (2 * count),
        dilation=tuple(_ints(node, "rhs_dilation") or ones), groups=int(node.get("feature_group_count")) or 1,
        channels=kernel.shape[0], kernel_size=tuple(kernel.shape[2:]),
    )  # fmt: skip
    places = [
        int(node.get("output_batch_dimension")),
        int(node.get("output_feature_dimension")),
        *_ints(node, "output_spatial_dimensions"),
    ]
    return node.transpose(made, [places.index(k) for k in range(len(places))])


@tflite_op("STABLEHLO_GATHER")
def _gather(node: Node, x: Value, starts: Value) -> Value:
    """Windows of x at the positions in `starts`; known positions become a table of all elements' indices."""
    offset, collapsed, mapped = (_ints(node, n) for n in ("offset_dims", "collapsed_slice_dims", "start_index_map"))
    sizes, axis = _ints(node, "slice_sizes"), int(node.get("index_vector_dim"))
    shape = node.static(x)
    if axis == starts.ndim:
        starts = node.reshape(starts, [*starts.shape, 1])
    starts = node.transpose(starts, [*[k for k in range(starts.ndim) if k != axis], axis])
    batch = node.static(starts, "the shape of its indices")[:-1]
    most = np.array([shape[d] - sizes[d] for d in mapped])
    at = node.call("minimum", node.call("maximum", node.cast(starts, "int32"), 0), Value(array=most.astype(np.int32)))
    small(sizes, "a window")
    flat = np.zeros((1,), np.int64)
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    for d, n in enumerate(sizes):
        flat = (flat[:, None] + np.arange(n) * strides[d]).reshape(-1)
    weights = Value(array=np.array([strides[d] for d in mapped], np.int32))
    first = node.call("sum", node.call("multiply", at, weights), axis=(-1,), keepdims=True)
    places = node.call("add", first, Value(array=flat.astype(np.int32)))
    made = node.call("take", node.reshape(x, [-1]), places, axis=0, mode="clip")
    kept = [n for d, n in enumerate(sizes) if d not in collapsed]
    made = node.reshape(made, [*batch, *kept])
    rank = len(batch) + len(kept)
    order: list[int] = []
    lead, inner = iter(range(len(batch))), iter(range(len(batch), rank))
    for k in range(rank):
        order.append(next(inner) if k in offset else next(lead))
    return node.transpose(made, order)


@tflite_op("STABLEHLO_SCATTER")
def _scatter(node: Node, x: Value, places: Value, updates: Value) -> Value:
    window, inserted, mapped = (
        _ints(node, n) for n in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    )
    count, rank = len(mapped), x.ndim
    plain = (
        inserted == list(range(count))
        and mapped == list(range(count))
        and int(node.get("index_vector_dim")) == places.ndim - 1
    )
    if not plain or window != list(range(updates.ndim - (rank - count), updates.ndim)):
        raise OpNotImplemented(
            "it scatters windows that are not whole rows; supported: rows of the first axes, as SCATTER_ND"
        )
    model = node.importer.model
    graph = model.item(model.root.subgraphs, int(node.get("update_computation_subgraph_index")), "subgraph")
    mode = "update"
    if len(graph.operators):
        key = body_function(node, int(node.get("update_computation_subgraph_index")))
        mode = {"add": "add", "multiply": "mul", "minimum": "min", "maximum": "max"}.get(key, "")
        if not mode:
            raise OpNotImplemented(f"its function is {key}; supported: add, multiply, minimum, maximum")
    turned = node.transpose(node.cast(places, "int32"), [places.ndim - 1, *range(places.ndim - 1)])
    return node.call("scatter_nd", x, turned, updates, mode=mode)


@tflite_op("STABLEHLO_SORT")
def _sort(node: Node, *inputs: Value) -> list[Value]:
    model = node.importer.model
    graph = model.item(model.root.subgraphs, int(node.get("comparator_subgraph_index")), "subgraph")
    names = [model.operator_name(op)[0] for op in graph.operators]
    if names != ["STABLEHLO_COMPARE"] or graph.operators[0].inputs.tolist() != graph.inputs.tolist()[:2]:
        raise OpNotImplemented(
            "its order is not that of its first tensor's elements; supported: one comparison of these"
        )
    up = COMPARISONS[int(graph.operators[0].builtin_options2.comparison_direction)] in ("LT", "LE")
    axis = int(node.get("dimension")) % inputs[0].ndim
    order = node.call("argsort", inputs[0], axis=axis, is_ascend=up, dtype="int32")
    return [node.call("gather", v, order, axis=axis) for v in inputs]
