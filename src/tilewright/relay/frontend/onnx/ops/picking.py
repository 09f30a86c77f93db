"""Converters of operators whose results are selected by the data: non-zero indices, unique elements, scatters into caches, hard maxima."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import numpy_type
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.kinds import numpy_dtype
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import DiagnosticError


@onnx_op("NonZero")
def _nonzero(node: OnnxNode, x: Value) -> Expr:
    found = node.call("argwhere", x)
    return node.call("cast", node.call("transpose", found, axes=(1, 0)), dtype="int64")


@onnx_op("Compress", since=9)
def _compress(node: OnnxNode, x: Value, condition: Value) -> Expr:
    axis = node.get("axis")
    if axis is None:
        x, axis = Value(node.call("reshape", x, newshape=(-1,))), 0
    (axis,) = node.places([axis], x.ndim)
    extent, told = x.shape[axis], condition.shape[0]
    if not (isinstance(extent, int) and isinstance(told, int) and told <= extent):
        # Entries of the condition after the last element are ignored.
        zero, one = [Value(array=np.array([v], np.int64)) for v in (0, 1)]
        end = node.call("reshape", node.builder.extent(x, axis), newshape=(1,))
        condition = Value(node.call("dyn.strided_slice", condition, zero, end, one, axes=(0,)))
    places = node.call("squeeze", node.call("argwhere", condition), axis=(1,))
    return node.call("take", x, places, axis=axis)


@onnx_op("Hardmax")
def _hardmax_flat(node: OnnxNode, x: Value) -> Expr:
    at = node.place(node.get("axis", 1), x.ndim)
    shape = node.static(x)
    flat = Value(node.call("reshape", x, newshape=(int(np.prod(shape[:at])), -1)))
    return node.call("reshape", _hardest(node, flat, -1), newshape=tuple(shape))


@onnx_op("Hardmax", since=13)
def _hardmax(node: OnnxNode, x: Value) -> Expr:
    return _hardest(node, x, node.get("axis", -1))


def _hardest(node: OnnxNode, x: Value, axis: int) -> Expr:
    at = node.place(axis, x.ndim)
    best = node.call("argmax", x, axis=at, keepdims=True)
    extent = node.static(x)[at]
    small([extent], "an axis of its input")
    shape = [1] * x.ndim
    shape[at] = extent
    places = Value(array=np.arange(extent, dtype=np.int32).reshape(shape))
    return node.call("cast", node.call("equal", node.cast(best, "int32"), places), dtype=x.dtype)


@onnx_op("CumProd", since=26)
def _cumprod(node: OnnxNode, x: Value, axis: Value) -> Expr:
    at = int(node.numbers(axis, "axis").reshape(-1)[0])
    backwards = bool(node.get("reverse", 0))
    data = node.call("reverse", x, axis=at) if backwards else x
    total = node.call("cumprod", data, axis=at, exclusive=bool(node.get("exclusive", 0)))
    return node.call("reverse", total, axis=at) if backwards else total


@onnx_op("ReverseSequence", since=10)
def _reverse_sequence(node: OnnxNode, x: Value, lengths: Value) -> Expr:
    extent = x.shape[node.place(node.get("time_axis", 0), x.ndim)]
    known = lengths.array if lengths.is_number else None
    if known is not None and known.size and isinstance(extent, int) and not 0 <= known.min() <= known.max() <= extent:
        raise DiagnosticError(f"its sequences are {known.tolist()} long, and there are {extent} steps")
    return node.call(
        "reverse_sequence",
        x,
        node.cast(lengths, "int32"),
        seq_axis=node.get("time_axis", 0),
        batch_axis=node.get("batch_axis", 1),
    )


@onnx_op("TensorScatter", since=24)
def _tensor_scatter(node: OnnxNode, cache: Value, update: Value, first: Value | None = None) -> Expr:
    at = node.place(node.get("axis", -2), cache.ndim)
    (batch, size), length = (node.static(cache)[0], node.static(cache)[at]), node.static(update)[at]
    small([batch, size], "its table of places")
    if first is None:
        first = Value(array=np.zeros(batch, np.int64))
    places = Value(array=np.arange(size, dtype=np.int64).reshape(1, size))
    offset = node.call("subtract", places, node.call("expand_dims", first, axis=1))
    if node.get("mode", "linear") == "circular":
        offset = node.call("floor_mod", offset, node.scalar(size, "int64"))
    inside = node.call(
        "logical_and",
        node.call("greater_equal", offset, node.scalar(0, "int64")),
        node.call("less", offset, node.scalar(length, "int64")),
    )
    taken = node.call("take", update, offset, axis=at, batch_dims=1, mode="clip")
    shape = [1] * cache.ndim
    shape[0], shape[at] = batch, size
    return node.call("where", node.call("reshape", inside, newshape=tuple(shape)), taken, cache)


@onnx_op("Det", since=11)
def _det(node: OnnxNode, x: Value) -> Tensor:
    n = x.shape[-1]
    if not isinstance(n, int) or not 0 < n <= 4:
        whole = node.call("shape_of", x, dtype="int64")
        outer = node.value("strided_slice", whole, begin=(0,), end=(x.ndim - 2,), strides=(1,))
        known = all([isinstance(d, int) for d in x.shape[:-2]])
        return node.host_call("linalg.det", [x], x.shape[:-2] if known else outer, x.dtype)

    def entry(i: int, j: int) -> Expr:
        part = node.call(
            "strided_slice", x, begin=(i, j), end=(i + 1, j + 1), strides=(1, 1), axes=(x.ndim - 2, x.ndim - 1)
        )
        return node.call("squeeze", part, axis=(-2, -1))

    def minor(row: int, columns: tuple[int, ...]) -> Expr:
        if len(columns) == 1:
            return entry(row, columns[0])
        terms = [
            node.call("multiply", entry(row, c), minor(row + 1, columns[:k] + columns[k + 1 :]))
            for k, c in enumerate(columns)
        ]
        total = terms[0]
        for k, term in enumerate(terms[1:], 1):
            total = node.call("subtract" if k % 2 else "add", total, term)
        return total

    return minor(0, tuple(range(n)))


@host_function("linalg.det")
def _run_det(config: Config, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.det(x))


# ---- unique


@onnx_op("Unique", since=11, typed=True)
def _unique(node: OnnxNode, x: Value) -> list[Value]:
    axis, ordered = node.get("axis"), bool(node.get("sorted", 1))
    if axis is None and not x.kind:
        flat = node.call("reshape", x, newshape=(-1,))
        kinds, first, which, _, counts = node.calls("unique", flat, is_sorted=ordered, return_counts=True)
        return [Value(kinds), *[node.cast(v, "int64") for v in (first, which, counts)]]
    if axis is not None:
        (axis,) = node.places([axis], x.ndim)
    config = {"axis": axis, "sorted": ordered, "kind": x.kind}
    plain = [x.plain()]
    parts = [node.host_call_sized("unique", plain, x.ndim if axis is not None else 1, x.element, {**config, "part": 0})]
    parts += [node.host_call_sized("unique", plain, 1, "int64", {**config, "part": k}) for k in (1, 2, 3)]
    return parts


@host_function("unique")
def _run_unique(config: Config, x: np.ndarray) -> np.ndarray:
    axis = config["axis"]
    data = string_table.decode(x) if config["kind"] == "string" else x
    keys = data.reshape(-1) if axis is None else data
    if keys.dtype == object:
        keys = keys.astype(np.str_)
    kinds, first, which, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True, axis=axis if axis is not None else 0
    )
    which = which.reshape(-1)
    order = np.arange(len(first)) if config["sorted"] else np.argsort(first, kind="stable")
    rank = np.argsort(order)
    part = config["part"]
    if part == 0:
        return np.take(x.reshape(-1) if axis is None else x, first[order], axis=axis or 0)
    return np.asarray((first[order], rank[which], counts[order])[part - 1], np.int64)


@host_function("unique.shape")
def _unique_shape(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array(_run_unique(config, x).shape, np.int64)


# ---- random numbers


def drawn(node: OnnxNode, function: str, inputs: list[Value], shape: Any, dtype: str, config: Config) -> Value:
    """Random numbers of NumPy's RandomState. With a seed runs repeat; without a seed they differ."""
    seed = node.get("seed")
    if seed is not None and not np.isfinite(seed):
        raise DiagnosticError(f"its seed is {seed}, from which no numbers begin")
    return node.host_call(function, inputs, shape, dtype, {**config, "seed": seed}, pure=False)


def _state(config: Config) -> np.random.RandomState:
    seed = config["seed"]
    return np.random.RandomState(None if seed is None else int(seed) & 0xFFFFFFFF)


@host_function("random.uniform")
def _run_uniform(config: Config) -> np.ndarray:
    return np.asarray(_state(config).uniform(config["low"], config["high"], config["shape"]))


@host_function("random.normal")
def _run_normal(config: Config) -> np.ndarray:
    return np.asarray(_state(config).normal(config["mean"], config["scale"], config["shape"]))


@host_function("random.multinomial")
def _run_multinomial(config: Config, logits: np.ndarray) -> np.ndarray:
    state = _state(config)
    weights = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.stack([state.choice(len(w), config["count"], p=w) for w in weights])


def _distribution(name: str) -> tuple[str, dict[str, float]]:
    if "Uniform" in name:
        return "random.uniform", {"low": 0.0, "high": 1.0}
    return "random.normal", {"mean": 0.0, "scale": 1.0}


def _random(node: OnnxNode, shape: list[int], dtype: str) -> Value:
    function, config = _distribution(node.op_type)
    values: dict[str, Any] = {k: node.get(k, v) for k, v in config.items()}
    if not all(map(np.isfinite, values.values())) or values.get("scale", 0.0) < 0:
        told = ", ".join([f"{k} is {v:g}" for k, v in values.items()])
        raise DiagnosticError(f"its {told}, between which there are no random numbers")
    wide = drawn(node, function, [], shape, "float64", {**values, "shape": shape})
    return node.cast(wide, dtype)


def _dtype(node: OnnxNode, default: str) -> str:
    return numpy_dtype(numpy_type(node.get("dtype")).name).name if node.get("dtype") else default


@onnx_op("RandomUniform", "RandomNormal")
def _random_of(node: OnnxNode) -> Value:
    return _random(node, list(node.get("shape")), _dtype(node, "float32"))


@onnx_op("RandomUniformLike", "RandomNormalLike")
def _random_like(node: OnnxNode, x: Value) -> Value:
    return _random(node, node.static(x), _dtype(node, x.dtype))


@onnx_op("Multinomial", since=7)
def _multinomial(node: OnnxNode, x: Value) -> Value:
    count = node.get("sample_size", 1)
    if count < 1:
        raise node.refuse("sample_size", count, "positive numbers")
    shape = [node.static(x)[0], count]
    return drawn(node, "random.multinomial", [x], shape, _dtype(node, "int32"), {"count": count})


@onnx_op("Dropout")
def _dropout_attributes(node: OnnxNode, x: Value) -> Result:
    # Before opset 7 the model may mark inference; the mask has the data's type.
    if node.opset < 7 and not node.get("is_test", 0) and node.get("ratio", 0.5) > 0 and node.wants(1):
        raise node.refuse("is_test", 0, "1: export the model in evaluation mode")
    compatibility.OLD_DROPOUT.seen(node.name)
    result = x.plain()
    mask_type = "bool" if node.opset >= 10 else x.dtype
    return [result, Value(array=np.ones(node.static(x), mask_type))] if node.wants(1) else result


@onnx_op("Dropout", since=12)
def _dropout(node: OnnxNode, x: Value, ratio: Value | None = None, training: Value | None = None) -> Result:
    result = x.plain()
    if training is None or not bool(node.numbers(training, "training mode").reshape(-1)[0]):
        compatibility.OLD_DROPOUT.seen(node.name)
        return [result, Value(array=np.ones(node.static(x), bool))] if node.wants(1) else result
    share = 0.5 if ratio is None else float(node.numbers(ratio, "ratio").reshape(-1)[0])
    shape = node.static(x)
    if share == 0:
        return [result, Value(array=np.ones(shape, bool))]
    numbers = drawn(node, "random.uniform", [], shape, "float64", {"low": 0.0, "high": 1.0, "shape": shape})
    mask = node.call("greater_equal", numbers, node.scalar(share, "float64"))
    kept = node.call("multiply", x, node.call("cast", mask, dtype=x.dtype))
    return [node.call("multiply", kept, node.scalar(1 / (1 - share), x)), mask]
