"""Converters of com.microsoft's general operators on tensors: distances, inverses, complex products, transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.ops.arithmetic import matmul
from tilewright.relay.frontend.onnx.ops.integers import shifted
from tilewright.relay.frontend.onnx.ops.signal import fourier
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op
from tilewright.runtime.host_functions.linalg import inverse


@onnx_op("ExpandDims", domain=DOMAIN)
def _expand_dims(node: OnnxNode, x: Value, axis: Value) -> Expr:
    return node.call("expand_dims", x, axis=int(node.numbers(axis, "axis").reshape(-1)[0]))


def _as_onnx(name: str) -> Any:
    def convert(node: OnnxNode, *inputs: Value) -> Any:
        return node.nested(name, *inputs, **node.attrs)

    return convert


for _name in ("Trilu", "GatherND", "Range", "Unique"):
    onnx_op(_name, domain=DOMAIN)(_as_onnx(_name))


@onnx_op("SampleOp", domain=DOMAIN)
def _same(node: OnnxNode, x: Value) -> Value:
    return x.plain()


@onnx_op("TorchEmbedding", domain=DOMAIN)
def _embedding(node: OnnxNode, weight: Value, places: Value, *training: Value | None) -> Expr:
    return node.call("take", weight, places, axis=0, mode="bounded")


@onnx_op("CDist", domain=DOMAIN)
def _distances(node: OnnxNode, a: Value, b: Value) -> Expr:
    metric = node.get("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise node.refuse("metric", metric, "sqeuclidean, euclidean")
    lengths = [node.call("sum", node.call("multiply", v, v), axis=(1,)) for v in (a, b)]
    both = node.call("add", node.call("expand_dims", lengths[0], axis=1), lengths[1])
    product = node.call("multiply", node.call("nn.matmul", a, b, transpose_b=True), node.scalar(2, a))
    found = node.call("maximum", node.call("subtract", both, product), node.scalar(0, a))
    return node.call("sqrt", found) if metric == "euclidean" else found


@onnx_op("Inverse", domain=DOMAIN)
def _inverse(node: OnnxNode, x: Value) -> Expr:
    *lead, size, _ = node.static(x)
    flat = node.host_call(f"linalg.{inverse.__name__}", [x], (*lead, size * size), x.dtype)
    return node.call("reshape", flat, newshape=(*lead, size, size))


@onnx_op("ComplexMul", "ComplexMulConj", domain=DOMAIN)
def _complex_product(node: OnnxNode, x: Value, y: Value) -> Expr:
    (a, b), (c, d) = [
        [node.call("squeeze", p, axis=(-1,)) for p in node.calls("split", v, indices_or_sections=2, axis=-1)]
        for v in (x, y)
    ]
    if node.op_type == "ComplexMulConj":
        d = node.call("negative", d)
    real = node.call("subtract", node.call("multiply", a, c), node.call("multiply", b, d))
    imaginary = node.call("add", node.call("multiply", a, d), node.call("multiply", b, c))
    return node.call("stack", [real, imaginary], axis=-1)


@onnx_op("Rfft", "Irfft", domain=DOMAIN)
def _real_transform(node: OnnxNode, x: Value) -> Expr:
    for name, wanted in (("signal_ndim", 1), ("onesided", 1), ("normalized", 0)):
        if node.get(name, wanted) != wanted:
            raise node.refuse(name, node.get(name), str(wanted))
    if node.op_type == "Rfft":
        return fourier(node, node.value("expand_dims", x, axis=x.ndim), None, -2, False, True)
    return node.call("squeeze", fourier(node, x, None, -2, True, True), axis=(-1,))


@onnx_op("IsAllFinite", domain=DOMAIN)
def _finite(node: OnnxNode, *inputs: Value) -> Expr:
    only = [name for name in ("isinf", "isnan") if node.get(f"{name}_only", 0)]
    total: Any = None
    for x in inputs:
        bad = node.call(only[0], x) if only else node.call("logical_not", node.call("isfinite", x))
        found = node.call("any", bad)
        total = found if total is None else node.call("logical_or", total, found)
    return node.call("logical_not", total)


@onnx_op("MatMulInteger16", domain=DOMAIN)
def _words(node: OnnxNode, a: Value, b: Value) -> Expr:
    wide = "uint32" if "uint" in a.dtype else "int32"
    return matmul(node, node.cast(a, wide), node.cast(b, wide))


@onnx_op("MulInteger", domain=DOMAIN)
def _integer_product(node: OnnxNode, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None = None) -> Expr:
    return node.call("multiply", shifted(node, a, a_zero), shifted(node, b, b_zero))


@onnx_op("ReduceSumInteger", domain=DOMAIN)
def _integer_sum(node: OnnxNode, x: Value) -> Expr:
    wide = node.cast(x, "uint32" if "uint" in x.dtype else "int32")
    return node.call("sum", wide, axis=tuple(node.get("axes")), keepdims=bool(node.get("keepdims", 1)))


@onnx_op("NGramRepeatBlock", domain=DOMAIN)
def _no_repeats(node: OnnxNode, ids: Value, scores: Value) -> Tensor:
    size, length = node.get("ngram_size"), node.static(ids)[1]
    if length < size:
        return scores
    starts = np.arange(length - size + 1)
    places = (starts[:, None] + np.arange(size - 1)).astype(np.int32)
    earlier = node.call("take", ids, Value(array=places), axis=1)
    last = node.call("strided_slice", ids, begin=(length - size + 1,), end=(length,), strides=(1,), axes=(1,))
    again = node.call("all", node.call("equal", earlier, node.call("expand_dims", last, axis=1)), axis=(2,))
    following = node.call("take", ids, Value(array=(starts + size - 1).astype(np.int32)), axis=1)
    none = node.call("where", again, node.scalar(-np.inf, scores), node.scalar(np.inf, scores))
    return node.call("scatter_elements", scores, following, none, axis=1, reduction="min")


@onnx_op("RelativePositionBias", domain=DOMAIN)
def _relative_bias(node: OnnxNode, table: Value, rows: Value, columns: Value) -> Expr:
    """T5's position bias: near distances each have a row of the table; farther ones share rows, by their logarithm."""
    queries, keys = [int(node.numbers(v, "lengths").reshape(-1)[0]) for v in (rows, columns)]
    buckets, _ = node.static(table)
    apart = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    found = np.zeros_like(apart)
    if node.get("is_bidirectional", 0):
        buckets //= 2
        found += (apart > 0) * buckets
        apart = np.abs(apart)
    else:
        apart = np.maximum(-apart, 0)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        far = np.log(apart / exact) / np.log(node.get("max_distance") / exact) * (buckets - exact)
    far = exact + np.where(np.isfinite(far), far, 0).astype(np.int64)
    found += np.where(apart < exact, apart, np.minimum(far, buckets - 1))
    picked = node.call("take", table, Value(array=found.astype(np.int32)), axis=0)
    return node.call("expand_dims", node.call("transpose", picked, axes=(2, 0, 1)), axis=0)


@onnx_op("GatedRelativePositionBias", domain=DOMAIN)
def _gated_bias(
    node: OnnxNode,
    query: Value, own: Value, distance: Value, weight: Value, bias: Value, strength: Value, offsets: Value | None = None,
) -> Value:  # fmt: skip
    from tilewright.relay.frontend.onnx.contrib.attention import heads

    if offsets is not None:
        raise node.refuse("token_offset", "given", "queries that are not packed")
    turned = heads(node, node.value("add", query, own), node.get("num_heads"))
    line = node.value("add", node.call("nn.matmul", turned, weight), bias)
    batch, count, length, width = node.static(line)
    pairs = node.call("reshape", line, newshape=(batch, count, length, 2, width // 2))
    gates = node.call("sigmoid", node.call("sum", pairs, axis=(-1,)))
    u, r = node.calls("split", gates, indices_or_sections=2, axis=-1)
    inner = node.call("subtract", node.call("multiply", r, strength), node.scalar(1, query))
    gate = node.call("add", node.call("multiply", u, inner), node.scalar(2, query))
    return as_value(node.call("multiply", gate, distance))
