"""Kernels for the rules of GPUs, by name: tensors of every rule, at sizes of one, primes, and more than a block of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te, tir, topi
from tilewright.node.field_values import numpy_dtype
from tilewright.topi import nn
from tilewright.topi.utils import as_int

Tensors = tuple[list[te.Tensor], list[te.Tensor]]
KERNELS: dict[str, Callable[[], Tensors]] = {}


def kernel(name: str, compute: Callable[..., Any], *shapes: tuple[Any, ...], dtype: str = "float32") -> None:
    """Adds a kernel of tensors of these shapes; a last element that is text is the type of a tensor."""

    def make() -> Tensors:
        ins = []
        for n, shape in enumerate(shapes):
            typed = bool(shape) and isinstance(shape[-1], str)
            ins.append(te.placeholder(shape[:-1] if typed else shape, shape[-1] if typed else dtype, name=f"x{n}"))
        out = compute(*ins)
        return ins, list(out) if isinstance(out, (list, tuple)) else [out]

    assert name not in KERNELS
    KERNELS[name] = make


def wide(x: te.Tensor) -> te.Tensor:
    return topi.cast(x, "float32")


def rms_norm(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
    squares = topi.mean(topi.multiply(x, x), axis=-1, keepdims=True)
    scale = te.compute(squares.shape, lambda *i: tir.rsqrt(squares(*i) + 1e-5), name="scale")
    return topi.multiply(topi.multiply(x, scale), weight)


def padded(size: int) -> Callable[[te.Tensor], te.Tensor]:
    return lambda x: nn.pad(x, [0, 0, 1, 2], [0, 0, size, 1])


for n, shape in enumerate([(1,), (7,), (5, 13), (4, 64), (3, 1, 37), (2, 17, 3, 8), (1, 1030)]):
    kernel(f"relu{n}", nn.relu, shape)
kernel("scalar", lambda x: topi.exp(x), ())
kernel("gelu", lambda x: topi.multiply(x, topi.erf(x)), (3, 100))
kernel("bias", lambda x, b: nn.relu(topi.add(x, b)), (2, 6, 40), (6, 1))
kernel("half", lambda x, y: topi.add(x, y), (6, 64), (6, 64), dtype="float16")
kernel("half_odd", lambda x, y: topi.add(x, y), (5, 13), (5, 13), dtype="float16")
kernel("widened", lambda x: topi.cast(topi.tanh(wide(x)), "float16"), (6, 48), dtype="float16")
kernel("bfloat16", lambda x: topi.multiply(x, x), (6, 48), dtype="bfloat16")
kernel(
    "bytes", lambda x: topi.cast(topi.add(topi.cast(x, "int32"), topi.cast(x, "int32")), "int8"), (3, 80), dtype="int8"
)
kernel("to_float", lambda x: wide(x), (3, 80), dtype="int8")
kernel("truth", lambda x: topi.greater(x, tir.const(0.0, "float32")), (5, 32))
kernel("double", lambda x: topi.exp(x), (9, 14), dtype="float64")
kernel("padding", padded(3), (1, 2, 5, 9))
kernel("concatenated", lambda x, y: topi.concatenate([x, nn.relu(y)], 1), (3, 5, 4), (3, 9, 4))
kernel("slice", lambda x: topi.strided_slice(x, [0, 3], [4, 21], [1, 2]), (4, 40))
kernel("gather", lambda x, i: topi.take(x, i, axis=1), (5, 17, 6), (9, "int32"))
kernel("resize", lambda x: topi.image.resize2d(x, (0.0,) * 4, [9, 11], "NCHW", "linear"), (1, 2, 5, 6))
kernel("two_results", lambda x: [topi.exp(x), nn.relu(x)], (3, 40))
kernel("shared_producer", lambda x: (lambda e: [topi.add(e, e), topi.transpose(e, (1, 0))])(topi.exp(x)), (33, 40))
for n, (shape, axes) in enumerate(
    [((33, 70), (1, 0)), ((64, 32), (1, 0)), ((2, 17, 3, 9), (0, 2, 3, 1)), ((2, 40, 3, 33), (0, 3, 1, 2)), ((5, 7), (1, 0)),
     ((20, 3, 35), (2, 1, 0)), ((1, 100, 18), (0, 2, 1))]
):  # fmt: skip
    kernel(f"transpose{n}", lambda x, axes=axes: topi.transpose(x, axes), shape)
kernel("transpose_half", lambda x: topi.transpose(x, (1, 0)), (40, 70), dtype="float16")
kernel("transpose_int8", lambda x: topi.transpose(x, (1, 0)), (40, 33), dtype="int8")
kernel("transpose_and_add", lambda x, y: topi.add(topi.transpose(nn.relu(x), (1, 0)), y), (40, 33), (33, 40))
for n, shape in enumerate(
    [
        (6, 256),
        (3, 7),
        (5, 37),
        (4, 250),
        (3, 200),
        (2, 1000),
        (3, 197),
        (1, 3466),
        (2, 4096),
        (2, 3, 1, 96),
        (64, 16),
        (32, 10),
    ]
):
    kernel(f"softmax{n}", nn.softmax, shape)
kernel("softmax_relu", lambda x: nn.softmax(nn.relu(x)), (4, 128))
kernel("softmax_of_columns", lambda x: nn.softmax(x, axis=1), (2, 40, 33))
kernel("softmax_half", lambda x: topi.cast(nn.softmax(wide(x)), "float16"), (4, 512), dtype="float16")
kernel("softmax_masked", lambda x, m: nn.softmax(topi.add(topi.multiply(x, x), m)), (2, 3, 64), (3, 64))
kernel(
    "attention",
    lambda q, k, v: nn.attention(q, k, v, scale=0.2, causal=True, past=9),
    (1, 8, 16),
    (1, 20, 16),
    (1, 20, 16),
)
kernel("log_softmax", nn.log_softmax, (4, 256))
kernel("log_softmax_odd", nn.log_softmax, (3, 119))
kernel("layer_norm", lambda x, g, b: nn.layer_norm(x, g, b, -1), (6, 256), (256,), (256,))
kernel("layer_norm_odd", lambda x, g, b: nn.layer_norm(x, g, b, -1), (3, 5, 77), (77,), (77,))
kernel("layer_norm_of_axes", lambda x, g, b: nn.layer_norm(x, g, b, [1, 2]), (2, 24, 100), (24, 100), (24, 100))
kernel("rms_norm", rms_norm, (4, 128), (128,))
kernel("instance_norm", lambda x, g, b: nn.instance_norm(x, g, b), (2, 3, 8, 16), (3,), (3,))
kernel("group_norm", lambda x, g, b: nn.group_norm(x, g, b, 2), (2, 8, 4, 8), (8,), (8,))
kernel("l2_normalize", lambda x: nn.l2_normalize(x, 1e-6, [1]), (4, 64))
kernel("lrn", lambda x: nn.lrn(x, 5), (1, 8, 5, 6))
kernel("sum", lambda x: topi.sum(x, axis=1), (5, 300))
kernel("sum_prime", lambda x: topi.sum(x, axis=1), (7, 1031))
kernel("sum_all", topi.sum, (37, 131))
kernel("sum_long", lambda x: topi.sum(x, axis=1), (1, 1 << 14))
kernel("sum_long_epilogue", lambda x: topi.exp(topi.mean(x, axis=1)), (2, 3 << 13))
kernel("sum_of_middle", lambda x: topi.sum(x, axis=1), (3, 700, 20))
kernel("sum_of_columns", lambda x: nn.relu(topi.sum(x, axis=0)), (600, 8))
kernel("sum_of_few_columns", lambda x: topi.sum(x, axis=0), (2048, 3))
kernel("mean_of_halves", lambda x: topi.cast(topi.mean(wide(x), axis=1), "float16"), (4, 72), dtype="float16")
kernel("max", lambda x: topi.max(x, axis=1), (3, 65))
kernel("min_int8", lambda x: topi.min(x, axis=1), (3, 160), dtype="int8")
kernel("any", lambda x: topi.any(topi.greater(x, tir.const(1.0, "float32")), axis=1), (4, 64))
kernel("argmax", lambda x: topi.argmax(x, axis=1), (5, 64))
kernel("argmin_odd", lambda x: topi.argmin(x, axis=1), (3, 131))
kernel("argmax_of_columns", lambda x: topi.argmax(x, axis=0), (64, 5))
kernel("max_pool", lambda x: nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max"), (1, 2, 9, 9))
kernel("avg_pool", lambda x: nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "avg"), (2, 3, 8, 8))
kernel(
    "max_pool_nhwc", lambda x: nn.pool2d(x, [3, 3], [1, 1], [1, 1], [1, 1, 1, 1], "max", False, "NHWC"), (1, 8, 9, 12)
)
kernel("depthwise", lambda x, w: nn.relu(nn.depthwise_conv2d_nchw(x, w, 1, 1, 1)), (1, 3, 8, 13), (3, 1, 3, 3))
kernel("depthwise_stride", lambda x, w: nn.depthwise_conv2d_nchw(x, w, 2, 2, 1), (2, 3, 11, 9), (3, 2, 5, 5))
kernel("depthwise_dilated", lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 2, 2), (1, 2, 8, 9), (2, 1, 3, 3))
kernel(
    "depthwise_nhwc",
    lambda x, w, b: topi.add(nn.depthwise_conv2d_nhwc(x, w, 1, 1, 1), b),
    (1, 6, 8, 12),
    (3, 3, 12, 1),
    (12,),
)
kernel(
    "depthwise_nhwc_half", lambda x, w: topi.cast(nn.relu(nn.depthwise_conv2d_nhwc(x, w, 2, 1, 1, out_dtype="float32")), "float16"),
    (1, 9, 8, 16), (3, 3, 16, 1), dtype="float16",
)  # fmt: skip
kernel("global_pool", lambda x: nn.global_pool(x, "avg"), (2, 3, 7, 9))
kernel("adaptive_pool", lambda x: nn.adaptive_pool(x, [3, 4], "avg"), (1, 2, 9, 13))
kernel("cumsum", lambda x: topi.cumsum(x, axis=1), (3, 70))
kernel("cumsum_long", lambda x: topi.cumsum(x), (2, 2100))
kernel("cumsum_exclusive", lambda x: topi.cumsum(x, axis=0, exclusive=True), (37,), dtype="int32")
kernel("cumprod_of_columns", lambda x: topi.cumprod(x, axis=0), (9, 5))
kernel("sort", lambda x: topi.sort(x, 1), (3, 21))
kernel("sort_columns", lambda x: topi.sort(x, 0, False), (70, 3))
kernel("argsort", lambda x: topi.argsort(x, axis=0), (33,), dtype="int32")
kernel("sort_halves", lambda x: topi.sort(x, 1), (2, 128), dtype="float16")
kernel("topk", lambda x: list(topi.topk(x, 5, 1)), (3, 40))
kernel("topk_one", lambda x: topi.topk(x, 1, 1, "values"), (3, 7))
kernel("scatter_nd", lambda x, i, u: topi.scatter_nd(x, i, u, "add"), (9, 6), (1, 5, "int32"), (5, 6))
kernel("scatter_elements", lambda x, i, u: topi.scatter_elements(x, i, u, 1), (4, 9), (4, 3, "int32"), (4, 3))
kernel("scatter_nd_mean", lambda x, i, u: topi.scatter_nd(x, i, u, "mean"), (5, 3, 4), (2, 7, "int32"), (7, 4))
kernel("scatter_nd_elements", lambda x, i, u: topi.scatter_nd(x, i, u, "add"), (8,), (1, 5, "int32"), (5,))
kernel(
    "scatter_elements_of_columns",
    lambda x, i, u: topi.scatter_elements(x, i, u, 0, "add"),
    (9, 5),
    (3, 4, "int32"),
    (3, 4),
)
kernel(
    "scatter_elements_of_middle",
    lambda x, i, u: topi.scatter_elements(x, i, u, 1),
    (2, 9, 3),
    (2, 4, 3, "int32"),
    (2, 4, 3),
)
kernel("reverse_sequence", lambda x: topi.reverse_sequence(x, te.compute((3,), lambda i: i + 2), 1, 0), (3, 8))


def arrays(ins: list[te.Tensor], outs: list[te.Tensor], seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Random inputs, and room for the results. Integers are indices from 0 to 7."""
    rng = np.random.default_rng(seed)
    made = []
    for t in ins:
        shape = [as_int(d) for d in t.shape]
        kind = numpy_dtype(t.dtype)
        whole = kind.kind in "iu"
        made.append(np.asarray(rng.integers(0, 8, shape) if whole else 2 * rng.standard_normal(shape)).astype(kind))
    return made, [np.zeros([as_int(d) for d in t.shape], numpy_dtype(t.dtype)) for t in outs]
