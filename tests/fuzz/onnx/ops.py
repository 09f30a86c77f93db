"""Generators of models of one operator, with random attributes, shapes and element types; one for every family of converters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.fuzz.onnx.case import Draw

Generator = Callable[[Draw], Any]
generators: dict[str, Generator] = {}

FLOATS = ["float32"] * 5 + ["float64", "float16"]
NUMBERS = ["float32", "float32", "float64", "int64", "int32"]
ANY = [*NUMBERS, "bool", "uint8", "int8", "float16"]
CODE = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64,
    "int32": TensorProto.INT32, "bool": TensorProto.BOOL, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8,
}  # fmt: skip


def ops(f: Generator) -> Generator:
    """Register a generator by its name."""
    generators[f.__name__] = f
    return f


def broadcast(d: Draw, count: int = 2) -> list[list[int]]:
    """Shapes that broadcast together: leading axes left out, extents of one."""
    full = d.shape(d.int(0, 4))
    result = []
    for _ in range(count):
        start = d.int(0, len(full)) if d.maybe(0.4) else 0
        result.append([1 if d.maybe(0.25) else e for e in full[start:]])
    return result


def axis(d: Draw, rank: int) -> int:
    """An axis, from either end."""
    return d.int(-rank, rank - 1)


@ops
def unary(d: Draw) -> None:
    plain = ["Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Sin", "Cos",
             "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Identity", "Reciprocal", "HardSwish", "Mish", "Elu", "Selu", "Celu", "LeakyRelu",
             "ThresholdedRelu", "HardSigmoid", "Shrink", "Gelu", "IsNaN", "Not"]  # fmt: skip
    ranges = {
        "Log": (0.01, 5),
        "Sqrt": (0, 5),
        "Acos": (-1, 1),
        "Asin": (-1, 1),
        "Acosh": (1, 9),
        "Atanh": (-0.95, 0.95),
    }
    op = d.pick([*plain, *ranges])
    integers = {"Abs", "Neg", "Sign", "Identity", *(["Relu"] if d.opset >= 14 else [])}
    dtype = d.pick(["float32"] * 4 + (["int32", "int64", "int8"] if op in integers else ["float16", "float64"]))
    attrs: dict[str, Any] = {}
    if op in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu") and d.maybe(0.7):
        attrs["alpha"] = float(d.rng.uniform(0.1, 1.5))
    if op == "HardSigmoid":
        attrs = {"alpha": 0.3, "beta": 0.4}
    if op == "Shrink":
        attrs = {"lambd": 0.7, "bias": 0.2}
    if op == "Gelu":
        d.opset, attrs = 20, {"approximate": d.pick(["none", "tanh"])}
    if op == "Mish":
        d.opset = max(d.opset, 18)
    low, high = ranges.get(op, (-4, 4) if d.maybe(0.8) else (-30, 30))
    shape = d.shape(d.int(0, 4))
    if op == "Not":
        dtype = "bool"
    x = d.array(shape, dtype, low, high)
    if op in ("Round", "Ceil", "Floor") and x.ndim and d.maybe():
        x = (np.round(x * 2) / 2).astype(dtype)  # ties
    if op == "IsNaN" and x.size:
        dtype = d.pick(["float32", "float64", "float16"])
        x = x.astype(dtype)
        x.reshape(-1)[:: d.int(1, 3)] = np.nan
    d.node(op, [d.feed(x, False)], **attrs)


@ops
def special_values(d: Draw) -> None:
    """Infinities and NaN through operators that promise something about them."""
    x = d.array(d.shape(2), "float32", -3, 3)
    flat = x.reshape(-1)
    for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        flat[d.int(0, len(flat) - 1)] = value
    name = d.feed(x, False)
    op = d.pick(
        [
            "IsNaN",
            "IsInf",
            "Where",
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Max",
            "Min",
            "Clip",
            "Abs",
            "Sqrt",
            "Log",
            "Erf",
            "Floor",
        ]
    )
    if op == "IsInf":
        d.node(op, [name], detect_negative=d.int(0, 1), detect_positive=d.int(0, 1))
    elif op == "Where":
        # What attention does with rows that are masked wholly.
        d.node("Where", [d.node("IsNaN", [name]), d.feed(np.array(0, np.float32), True), name])
    elif op in ("Max", "Min"):
        d.node(op, [name, d.data(list(x.shape))])
    elif op == "Clip":
        d.node(op, [name, d.feed(np.array(-1, np.float32), True), d.feed(np.array(1, np.float32), True)])
    else:
        d.node(op, [name])


@ops
def binary(d: Draw) -> None:
    op = d.pick(["Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Sum", "Max", "Min", "Mean"])
    dtype = d.pick(FLOATS if op in ("PRelu", "Sum", "Mean", "Pow") else NUMBERS)
    many = op in ("Sum", "Max", "Min", "Mean")
    shapes = broadcast(d, d.int(1, 4) if many else 2)
    if op == "PRelu":
        shapes = [np.broadcast_shapes(*map(tuple, shapes)), shapes[1]]  # type: ignore[list-item]
    attrs: dict[str, Any] = {}
    low, high = (-3, 3) if np.dtype(dtype).kind == "f" else (-20, 20)
    values = [d.array(s, dtype, low, high) for s in shapes]
    if op == "Pow":
        values[0] = np.asarray(np.abs(values[0]) + np.float32(0.1), dtype)
        if d.maybe(0.4):
            values[1] = np.asarray(d.pick([0.5, 1, 2, 3, -1, 0]), dtype)
    if op == "Div" or op == "Mod":
        values[1] = np.asarray(np.where(np.abs(values[1]) < 0.1, 1, values[1]), dtype)
    if op == "Mod" and np.dtype(dtype).kind == "f":
        attrs["fmod"] = 1
    elif op == "Mod":
        attrs["fmod"] = d.int(0, 1)
    d.node(op, [d.feed(v, None if k else False) for k, v in enumerate(values)], **attrs)


@ops
def compare(d: Draw) -> None:
    op = d.pick(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"])
    dtype = (
        "bool"
        if op in ("And", "Or", "Xor")
        else d.pick(["float32", "int64", "int32", *(["bool"] if op == "Equal" else [])])
    )
    a, b = broadcast(d)
    d.node(op, [d.data(a, dtype, -3, 3), d.feed(d.array(b, dtype, -3, 3))])


@ops
def bits(d: Draw) -> None:
    op = d.pick(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"])
    d.opset = max(d.opset, 18)
    a, b = broadcast(d)
    if op == "BitShift":
        dtype = d.pick(["uint8", "uint32", "uint64"])
        most = np.dtype(dtype).itemsize * 8 - 1
        d.node(op, [d.data(a, dtype, 0, 200), d.feed(d.array(b, dtype, 0, most))], direction=d.pick(["LEFT", "RIGHT"]))
        return
    dtype = d.pick(["int32", "int64", "uint8"])
    x = d.data(a, dtype, -100, 100)
    d.node(op, [x] if op == "BitwiseNot" else [x, d.feed(d.array(b, dtype, -100, 100))])


@ops
def where(d: Draw) -> None:
    c, a, b = broadcast(d, 3)
    dtype = d.pick(NUMBERS + ["bool"])
    d.node("Where", [d.feed(d.array(c, "bool"), d.maybe(0.2)), d.data(a, dtype), d.feed(d.array(b, dtype))])


@ops
def clip(d: Draw) -> None:
    dtype = d.pick(["float32", "float32", "int32", "int64", "float64", "float16"])
    x = d.data(d.shape(d.int(0, 3)), dtype, -9, 9)
    bounds = [
        d.feed(np.array(v, dtype), d.maybe(0.6)) if d.maybe(0.75) else "" for v in (d.pick([-3, 0]), d.pick([2, 6]))
    ]
    while bounds and not bounds[-1]:
        bounds.pop()
    d.node("Clip", [x, *bounds])


@ops
def cast(d: Draw) -> None:
    source, target = d.pick(ANY), d.pick(ANY)
    low, high = (0, 100) if "uint" in source + target or "bool" in (source, target) else (-100, 100)
    x = d.data(d.shape(d.int(0, 3)), source, low, high)
    d.opset = max(d.opset, 15)
    if d.maybe(0.2):
        d.node("CastLike", [x, d.feed(np.zeros(1, target), True)])
    else:
        d.node("Cast", [x], to=CODE[target])


def window(d: Draw, n: int, most: int = 4) -> dict[str, Any]:
    """Kernel, strides, dilations and padding of n spatial axes."""
    kernel = [d.int(1, most) for _ in range(n)]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if d.maybe(0.6):
        attrs["strides"] = [d.int(1, 3) for _ in range(n)]
    auto = d.pick(["NOTSET"] * 5 + ["SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto != "NOTSET":
        return attrs | {"auto_pad": auto}
    if d.maybe(0.35):
        attrs["dilations"] = [d.int(1, 3) for _ in range(n)]
    if d.maybe(0.7):
        # ONNX Runtime wants the padding smaller than the kernel in poolings.
        attrs["pads"] = [d.int(0, k - 1) for k in kernel * 2]
    return attrs


def reach(attrs: dict[str, Any], n: int) -> list[int]:
    """Least extents that a window fits into without padding."""
    return [(k - 1) * s + 1 for k, s in zip(attrs["kernel_shape"], attrs.get("dilations", [1] * n), strict=True)]


@ops
def conv(d: Draw) -> None:
    n = d.pick([1, 2, 2, 2, 2, 2, 2, 3])
    attrs = window(d, n, 5)
    if "pads" in attrs and d.maybe(0.3):
        attrs["pads"] = [d.int(0, 4) for _ in range(2 * n)]
    style = d.pick(["plain", "plain", "plain", "grouped", "depthwise", "multiplier"])
    if style == "plain":
        groups, inner, outer = 1, d.channels(), d.channels()
    elif style == "grouped":
        groups = d.pick([2, 3, 4])
        inner, outer = groups * d.pick([1, 2, 3, 5, 8]), groups * d.pick([1, 2, 4, 7, 8])
    else:
        groups = inner = d.channels()
        outer = inner * (1 if style == "depthwise" else d.int(2, 3))
    batch = d.pick([1, 1, 2, 3])
    extents = [max(r, d.pick([1, 3, 5, 7, 8, 11, 14, 16, 19, 28, 33])) for r in reach(attrs, n)]
    if n == 3:
        extents = [max(r, min(e, 6)) for r, e in zip(reach(attrs, n), extents, strict=True)]
    dtype = d.pick(["float32"] * 8 + ["float64"])
    x = d.data([batch, inner, *extents], dtype)
    known = d.maybe(0.85)
    w = d.feed(d.array([outer, inner // groups, *attrs["kernel_shape"]], dtype, -0.5, 0.5), known)
    inputs = [x, w] + ([d.feed(d.array([outer], dtype), known)] if d.maybe() else [])
    d.node("Conv", inputs, group=groups, **attrs)


@ops
def conv_transpose(d: Draw) -> None:
    n = d.pick([1, 2, 2, 2, 2, 3])
    attrs = window(d, n, 4)
    groups = d.pick([1, 1, 1, 2, 3])
    inner, outer = groups * d.pick([1, 2, 3, 5, 8, 17]), d.pick([1, 2, 3, 8, 16])
    extents = [d.pick([3, 4, 5, 7, 9]) for _ in range(n)]
    strides = attrs.get("strides", [1] * n)
    if "auto_pad" not in attrs and d.maybe(0.3):
        attrs["output_padding"] = [d.int(0, s - 1) for s in strides]
    x = d.data([d.pick([1, 2]), inner, *extents])
    w = d.weight([inner, outer, *attrs["kernel_shape"]])
    d.node("ConvTranspose", [x, w] + ([d.weight([outer * groups])] if d.maybe() else []), group=groups, **attrs)


@ops
def pool(d: Draw) -> None:
    op = d.pick(["MaxPool", "AveragePool"])
    n = d.pick([1, 2, 2, 2, 2, 3])
    d.opset = max(d.opset, 19)
    attrs = window(d, n)
    if op == "AveragePool":
        attrs["count_include_pad"] = d.int(0, 1)
    if "auto_pad" not in attrs:
        attrs["ceil_mode"] = d.int(0, 1)
    extents = [max(r, d.pick([3, 5, 7, 8, 13, 16, 25])) for r in reach(attrs, n)]
    if n == 3:
        extents = [max(r, min(e, 7)) for r, e in zip(reach(attrs, n), extents, strict=True)]
    dtype = d.pick(["float32"] * 5 + ["float64"]) if op == "MaxPool" else "float32"
    d.node(op, [d.data([d.pick([1, 1, 2]), d.channels(), *extents], dtype)], **attrs)


@ops
def global_pool(d: Draw) -> None:
    rank = d.pick([3, 4, 4, 4, 5])
    d.node(
        d.pick(["GlobalAveragePool", "GlobalMaxPool"]), [d.data([d.int(1, 2), d.channels(), *d.shape(rank - 2, 400)])]
    )


@ops
def norm(d: Draw) -> None:
    op = d.pick(
        [
            "BatchNormalization",
            "InstanceNormalization",
            "LayerNormalization",
            "GroupNormalization",
            "LpNormalization",
            "LRN",
        ]
    )
    shape = [d.int(1, 3), d.channels(), *d.shape(d.int(1 if op == "InstanceNormalization" else 0, 2), 300)]
    epsilon = d.pick([1e-5, 1e-3])
    if op == "BatchNormalization":
        c = shape[1]
        parts = [d.weight([c]), d.weight([c]), d.weight([c]), d.feed(d.array([c], low=0.3, high=2.0), True)]
        d.node(op, [d.data(shape), *parts], epsilon=epsilon)
    elif op == "InstanceNormalization":
        shape[-1] = max(shape[-1], 5)
        d.node(op, [d.data(shape), d.weight([shape[1]]), d.weight([shape[1]])], epsilon=epsilon)
    elif op == "LayerNormalization":
        d.opset = max(d.opset, 17)
        at = axis(d, len(shape))
        rest = shape[at:] if at < 0 else shape[at:]
        if int(np.prod(rest)) < 5:
            shape[-1] = rest[-1] = 17
        parts = [d.weight(rest)] + ([d.weight(rest)] if d.maybe(0.7) else [])
        d.node(op, [d.data(shape), *parts], axis=at, epsilon=epsilon)
    elif op == "GroupNormalization":
        d.opset = 21
        groups = d.int(1, 4)
        shape = [d.int(1, 2), groups * d.int(1, 5), 5, *d.shape(1, 50)]
        d.node(op, [d.data(shape), d.weight([shape[1]]), d.weight([shape[1]])], num_groups=groups, epsilon=epsilon)
    elif op == "LpNormalization":
        d.node(op, [d.data(shape, low=0.1, high=2)], axis=axis(d, len(shape)), p=d.int(1, 2))
    else:
        d.node(
            op,
            [d.data([d.int(1, 2), d.channels(), *d.shape(2, 200)])],
            size=d.pick([1, 3, 5]),
            alpha=0.01,
            beta=0.6,
            bias=1.5,
        )


@ops
def softmax(d: Draw) -> None:
    d.opset = d.pick([7, 9, 11, 12, 13, 17, 20])
    shape = d.shape(d.int(1, 4))
    low = 0 if d.opset >= 13 else 0
    at = d.int(low, len(shape) - 1) if d.opset < 11 else axis(d, len(shape))
    d.node(
        d.pick(["Softmax", "LogSoftmax"]),
        [d.data(shape, d.pick(["float32"] * 3 + ["float64"]), -8, 8)],
        axis=None if d.maybe(0.2) and len(shape) > 1 else at,
    )


@ops
def pad(d: Draw) -> None:
    shape = d.shape(d.int(1, 4), 2000)
    mode = d.pick(["constant", "constant", "edge", "reflect", "wrap"])
    d.opset = d.pick([11, 13, 18, 19, 21])
    before, after = ([d.int(0, min(3, e - 1) if mode == "reflect" else 3) for e in shape] for _ in range(2))
    if mode == "constant" and d.maybe(0.3):
        before = [d.int(-min(1, e - 1), 2) for e in shape]
    inputs = [d.data(shape, d.pick(["float32", "float32", "int64", "int32"])), ""]
    axes = None
    if d.opset >= 18 and d.maybe(0.4):
        axes = sorted(int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))])
        before, after = [before[a] for a in axes], [after[a] for a in axes]
        axes = [a - len(shape) if d.maybe() else a for a in axes]
    inputs[1] = d.ints(before + after)
    if d.maybe() or axes:
        value = d.feed(np.array(3, d.inputs[inputs[0]].dtype), d.maybe(0.7)) if d.maybe(0.7) else ""
        inputs.append(value)
    if axes:
        inputs.append(d.ints(axes))
    d.node("Pad", inputs, mode=mode)


@ops
def reduction(d: Draw) -> None:
    op = "Reduce" + d.pick(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])
    shape = d.shape(d.int(1, 4), 3000)
    some = [int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))]]
    some = [a - len(shape) if d.maybe() else a for a in some]
    dtype = d.pick(
        FLOATS
        + (["int32", "int64"] if op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean") else [])
    )
    low, high = (0.5, 1.5) if op in ("ReduceProd", "ReduceLogSum") else (-2, 2)
    x = d.data(shape, dtype, low, high)
    keep = d.pick([None, 0, 1])
    if op == "ReduceSum" or d.opset >= 18:
        none = d.pick([None, 0, 1])
        given = None if d.maybe(0.2) else d.ints([] if d.maybe(0.1) else some)
        d.node(op, [x] + ([given] if given else []), keepdims=keep, noop_with_empty_axes=none)
    else:
        d.node(op, [x], axes=None if d.maybe(0.2) else some, keepdims=keep)


@ops
def arg(d: Draw) -> None:
    shape = d.shape(d.int(1, 4))
    x = d.array(shape, d.pick(["float32", "int32", "float64"]), -3, 3)
    if x.dtype.kind == "f" and d.maybe(0.6):
        x = np.round(x)  # ties
    d.node(
        d.pick(["ArgMax", "ArgMin"]), [d.feed(x, False)],
        axis=axis(d, len(shape)), keepdims=d.int(0, 1), select_last_index=d.pick([None, 0, 1]),
    )  # fmt: skip


@ops
def cumsum(d: Draw) -> None:
    shape = d.shape(d.int(1, 3))
    at = d.feed(np.array(axis(d, len(shape)), d.pick(["int64", "int32"])), True)
    d.node(
        "CumSum",
        [d.data(shape, d.pick(["float32", "int64", "int32", "float64"])), at],
        exclusive=d.int(0, 1),
        reverse=d.int(0, 1),
    )


@ops
def matmul(d: Draw) -> None:
    m, k, n = d.extent(), d.extent(), d.extent()
    a, b = (d.pick([1, 2, 2, 3, 3, 4]) for _ in range(2))
    batch = d.shape(2, 12)
    left = [k] if a == 1 else [*[1 if d.maybe(0.2) else e for e in batch[4 - a :]], m, k]
    right = [k] if b == 1 else [*[1 if d.maybe(0.2) else e for e in batch[4 - b :]], k, n]
    dtype = d.pick(["float32"] * 6 + ["float64", "int32"])
    d.node("MatMul", [d.data(left, dtype), d.feed(d.array(right, dtype), d.maybe())])


@ops
def gemm(d: Draw) -> None:
    m, k, n = d.extent(), d.extent(), d.extent()
    ta, tb = d.int(0, 1), d.int(0, 1)
    a = d.data([k, m] if ta else [m, k])
    b = d.feed(d.array([n, k] if tb else [k, n]), d.maybe(0.7))
    inputs = [a, b]
    if d.maybe(0.7):
        inputs.append(d.feed(d.array(d.pick([[], [1], [n], [1, n], [m, 1], [m, n], [1, 1]]))))
    d.node("Gemm", inputs, transA=ta, transB=tb, alpha=d.pick([None, 0.5, 2.0]), beta=d.pick([None, 0.0, 0.25, 3.0]))


@ops
def einsum_like(d: Draw) -> None:
    """What attention is made of: products with transposes around them."""
    b, h, s, w = d.int(1, 2), d.int(1, 3), d.extent(), d.pick([1, 3, 5, 8, 16, 17])
    q, k = d.data([b, s, h, w]), d.data([b, s, h, w])
    left = d.node("Transpose", [q], perm=[0, 2, 1, 3])
    right = d.node("Transpose", [k], perm=[0, 2, 3, 1])
    scores = d.node("Mul", [d.node("MatMul", [left, right]), d.feed(np.array(w**-0.5, np.float32), True)])
    d.node("Softmax", [scores], axis=-1)
