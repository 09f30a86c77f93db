"""Generators of small networks: residual convolutional ones with odd channel counts, transformer blocks with odd widths, free mixtures."""

from __future__ import annotations

import numpy as np

from tests.fuzz.onnx.case import Draw
from tests.fuzz.onnx.ops import ops


def fan_in(d: Draw, shape: list[int]) -> str:
    """Weights whose products keep the magnitude of what they are applied to."""
    count = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
    return d.feed((d.rng.standard_normal(shape) / np.sqrt(max(1, count))).astype("float32"), True)


class Net:
    """A graph that grows by layers; `maps` are the feature maps made so far with their shapes."""

    def __init__(self, d: Draw, shape: list[int]) -> None:
        self.d = d
        self.maps: list[tuple[str, list[int]]] = [(d.data(shape), shape)]

    def conv(self, x: str, shape: list[int]) -> tuple[str, list[int]]:
        d, (n, c, h, w) = self.d, shape
        k, stride = d.pick([1, 1, 3, 3, 5]), d.pick([1, 1, 1, 2])
        style = d.pick(["plain", "plain", "plain", "depthwise", "grouped"])
        groups, out = (c, c) if style == "depthwise" else (1, d.channels())
        if style == "grouped" and c % 2 == 0:
            groups, out = 2, 2 * d.int(1, 9)
        inputs = [x, fan_in(d, [out, c // groups, k, k])] + ([d.weight([out])] if d.maybe() else [])
        y = d.node("Conv", inputs, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4, group=groups)
        return y, [n, out, (h - 1) // stride + 1, (w - 1) // stride + 1]

    def layer(self) -> None:
        d = self.d
        x, shape = self.maps[-1] if d.maybe(0.8) else d.pick(self.maps)
        n, c, h, w = shape
        kind = d.pick(
            [
                "conv",
                "conv",
                "conv",
                "norm",
                "act",
                "act",
                "pool",
                "add",
                "add",
                "concat",
                "gate",
                "upsample",
                "scale",
                "split",
                "shuffle",
                "mean",
            ]
        )
        out = shape
        if kind == "conv":
            x, out = self.conv(x, shape)
        elif kind == "norm":
            x = d.node(
                "BatchNormalization",
                [x, d.weight([c]), d.weight([c]), d.weight([c]), d.feed(d.array([c], low=0.5, high=2), True)],
            )
        elif kind == "act":
            x = self.activation(x, c)
        elif kind == "pool" and min(h, w) >= 3:
            stride = d.int(1, 2)
            attrs = {"kernel_shape": [3, 3], "strides": [stride] * 2, "pads": d.pick([[1] * 4, [0, 1, 1, 0]])}
            x = (
                d.node("MaxPool", [x], **attrs)
                if d.maybe()
                else d.node("AveragePool", [x], count_include_pad=d.int(0, 1), **attrs)
            )
            high, wide = sum(attrs["pads"][::2]), sum(attrs["pads"][1::2])
            out = [n, c, (h + high - 3) // stride + 1, (w + wide - 3) // stride + 1]
        elif kind == "add":
            other = d.pick([m for m in self.maps if m[1] == shape])[0]
            x = d.node(d.pick(["Add", "Mul", "Sub"]), [x, other])
        elif kind == "concat":
            others = [m for m in self.maps if m[1][2:] == shape[2:] and m[1][0] == n]
            parts = [(x, shape), *(d.pick(others) for _ in range(d.int(1, 2)))]
            x, out = d.node("Concat", [p[0] for p in parts], axis=1), [n, sum(p[1][1] for p in parts), h, w]
            if out[1] > 100:
                return
        elif kind == "gate":
            squeezed = d.node("GlobalAveragePool", [x])
            x = d.node(
                "Mul",
                [x, d.node(d.pick(["Sigmoid", "HardSigmoid"]), [d.node("Conv", [squeezed, fan_in(d, [c, c, 1, 1])])])],
            )
        elif kind == "upsample" and h * w < 300:
            x = d.node(
                "Resize", [x, "", d.feed(np.array([1, 1, 2, 2], "float32"), True)], mode=d.pick(["nearest", "linear"])
            )
            out = [n, c, 2 * h, 2 * w]
        elif kind == "scale":
            x = d.node(d.pick(["Add", "Mul"]), [x, d.weight(d.pick([[1, c, 1, 1], [c, 1, 1], [1], [], [1, 1, h, w]]))])
        elif kind == "split" and c > 1:
            cut = d.int(1, c - 1)
            a, b = d.node("Split", [x, d.ints([cut, c - cut])], 2, axis=1)
            self.maps.append((b, [n, c - cut, h, w]))
            x, out = a, [n, cut, h, w]
        elif kind == "shuffle" and c % 2 == 0:
            x = d.node("Reshape", [x, d.ints([n, 2, c // 2, h, w])])
            x = d.node("Reshape", [d.node("Transpose", [x], perm=[0, 2, 1, 3, 4]), d.ints([n, c, h, w])])
        elif kind == "mean":
            x = d.node("Add", [x, d.node("GlobalAveragePool", [x])])
        self.maps.append((x, out))

    def activation(self, x: str, channels: int) -> str:
        d = self.d
        op = d.pick(["Relu", "Relu", "Clip", "HardSwish", "Sigmoid", "LeakyRelu", "PRelu", "Silu", "Tanh"])
        if op == "Clip":
            return str(d.node(op, [x, d.feed(np.array(0, "float32"), True), d.feed(np.array(6, "float32"), True)]))
        if op == "PRelu":
            return str(d.node(op, [x, d.weight([channels, 1, 1])]))
        return str(d.node("Mul", [x, d.node("Sigmoid", [x])]) if op == "Silu" else d.node(op, [x]))


@ops
def convnet(d: Draw) -> None:
    d.opset = max(d.opset, 14)
    net = Net(d, [d.pick([1, 1, 2]), d.pick([1, 3, 5, 8, 16]), d.pick([7, 9, 12, 16, 19]), d.pick([7, 10, 12, 16, 21])])
    for _ in range(d.int(4, 14)):
        net.layer()
    x, (_, c, _, _) = net.maps[-1]
    if d.maybe(0.5):
        flat = d.node("Flatten", [d.node("GlobalAveragePool", [x])])
        logits = d.node("Gemm", [flat, fan_in(d, [c, 10]), d.weight([10])])
        d.node("Softmax", [logits], axis=1)


@ops
def residual(d: Draw) -> None:
    """Blocks as in ResNets and MobileNets, where folding, layouts and fusion all act."""
    d.opset = max(d.opset, 14)
    c = d.channels()
    net = Net(d, [d.int(1, 2), 3, d.pick([14, 17, 20]), d.pick([14, 16, 23])])
    x = d.node("Conv", [net.maps[0][0], fan_in(d, [c, 3, 3, 3])], pads=[1] * 4, strides=[2, 2])
    for _ in range(d.int(1, 4)):
        wide = d.channels() if d.maybe() else c
        y = d.node("Conv", [x, fan_in(d, [wide, c, 1, 1])])
        if d.maybe(0.7):
            y = d.node(
                "BatchNormalization",
                [
                    y,
                    d.weight([wide]),
                    d.weight([wide]),
                    d.weight([wide]),
                    d.feed(d.array([wide], low=0.5, high=2), True),
                ],
            )
        y = net.activation(y, wide)
        y = d.node("Conv", [y, fan_in(d, [wide, 1, 3, 3])], pads=[1] * 4, group=wide)
        y = d.node("Conv", [net.activation(y, wide), fan_in(d, [c, wide, 1, 1]), d.weight([c])])
        x = d.node("Add", [x, y] if d.maybe() else [y, x])
        x = d.node("Relu", [x]) if d.maybe() else x
    if d.maybe():
        d.node("Gemm", [d.node("Flatten", [d.node("GlobalAveragePool", [x])]), fan_in(d, [c, 7])])


@ops
def transformer(d: Draw) -> None:
    """Attention and a feed-forward layer, with odd widths, masks and bias forms."""
    d.opset = max(d.opset, 17)
    b, s, heads = d.int(1, 2), d.pick([1, 3, 7, 16, 17, 33]), d.pick([1, 2, 3, 4])
    w = d.pick([1, 4, 5, 8, 16])
    e = heads * w
    ids = d.maybe(0.4)
    if ids:
        tokens = d.feed(d.rng.integers(0, 11, (b, s)), False)
        x = d.node("Gather", [fan_in(d, [11, e]), tokens])
    else:
        x = d.data([b, s, e])
    mask = d.feed(np.where(d.rng.random((b, 1, 1, s)) < 0.3, -1e9, 0).astype("float32"), False) if d.maybe() else ""
    for _ in range(d.int(1, 2)):
        y = normalised(d, x, e) if d.maybe() else x
        q, k, v = projections(d, y, e)
        shape = d.ints([b, s, heads, w] if d.maybe() else [0, -1, heads, w])
        q, k, v = (d.node("Reshape", [t, shape]) for t in (q, k, v))
        q = d.node("Transpose", [q], perm=[0, 2, 1, 3])
        k = d.node("Transpose", [k], perm=[0, 2, 3, 1])
        v = d.node("Transpose", [v], perm=[0, 2, 1, 3])
        scores = d.node("Div", [d.node("MatMul", [q, k]), d.feed(np.array(np.sqrt(w), "float32"), True)])
        scores = d.node("Add", [scores, mask]) if mask else scores
        if d.maybe(0.3):
            kept = d.feed(np.tril(np.ones((1, 1, s, s), bool)), True)
            scores = d.node("Where", [kept, scores, d.feed(np.array(-1e9, "float32"), True)])
        mixed = d.node("MatMul", [d.node("Softmax", [scores], axis=-1), v])
        mixed = d.node("Reshape", [d.node("Transpose", [mixed], perm=[0, 2, 1, 3]), d.ints([b, s, e])])
        x = normalised(d, d.node("Add", [x, linear(d, mixed, e, e)]), e)
        wide = d.pick([e, 2 * e, 4 * e, 17])
        h = linear(d, x, e, wide)
        if d.maybe():
            erf = d.node("Erf", [d.node("Div", [h, d.feed(np.array(np.sqrt(2), "float32"), True)])])
            h = d.node(
                "Mul",
                [
                    d.node("Mul", [h, d.node("Add", [erf, d.feed(np.array(1, "float32"), True)])]),
                    d.feed(np.array(0.5, "float32"), True),
                ],
            )
        else:
            h = d.node(d.pick(["Relu", "Tanh", "Sigmoid"]), [h])
        x = d.node("Add", [linear(d, h, wide, e), x])
    if d.maybe(0.3):
        first = d.node("Gather", [x, d.feed(np.array(d.pick([0, -1])), True)], axis=1)
        d.node("Tanh", [d.node("Gemm", [first, fan_in(d, [e, e])])])


def linear(d: Draw, x: str, inner: int, outer: int) -> str:
    y = d.node("MatMul", [x, fan_in(d, [inner, outer])])
    if d.maybe(0.2):
        return str(y)
    return str(d.node("Add", [y, d.weight([outer])] if d.maybe() else [d.weight([outer]), y]))


def projections(d: Draw, x: str, e: int) -> list[str]:
    """Queries, keys and values: three products, or one that is split."""
    if d.maybe():
        return [linear(d, x, e, e) for _ in range(3)]
    return list(d.node("Split", [linear(d, x, e, 3 * e), d.ints([e, e, e])], 3, axis=-1))


def normalised(d: Draw, x: str, e: int) -> str:
    if d.maybe():
        return str(d.node("LayerNormalization", [x, d.weight([e]), d.weight([e])], axis=-1, epsilon=1e-3))
    axes = {"axes": [-1]} if d.opset < 18 else {}
    more = [d.ints([-1])] if d.opset >= 18 else []
    centred = d.node("Sub", [x, d.node("ReduceMean", [x, *more], **axes)])
    power = d.node("Pow", [centred, d.feed(np.array(2, "float32"), True)])
    spread = d.node("Add", [d.node("ReduceMean", [power, *more], **axes), d.feed(np.array(1e-3, "float32"), True)])
    scaled = d.node("Mul", [d.node("Div", [centred, d.node("Sqrt", [spread])]), d.weight([e])])
    return str(d.node("Add", [scaled, d.weight([e])]))


@ops
def mixture(d: Draw) -> None:
    """Element-wise chains, reductions, joins and views over tensors of one shape, each read several times."""
    shape = d.shape(d.int(1, 4), 2000)
    made = [d.data(shape), d.data([1 if d.maybe(0.4) else e for e in shape])]
    made[1] = d.node("Add", [made[0], made[1]])
    for _ in range(d.int(3, 12)):
        x, y = d.pick(made), d.pick(made)
        kind = d.pick(
            [
                "Add",
                "Mul",
                "Sub",
                "Max",
                "Where",
                "Relu",
                "Tanh",
                "Reduce",
                "Concat",
                "Transpose",
                "Slice",
                "Cast",
                "Softmax",
                "Scalar",
            ]
        )
        if kind in ("Add", "Mul", "Sub", "Max"):
            x = d.node(kind, [x, y])
        elif kind == "Where":
            x = d.node("Where", [d.node("Greater", [x, y]), y, d.node("Neg", [x])])
        elif kind in ("Relu", "Tanh"):
            x = d.node(kind, [x])
        elif kind == "Reduce":
            at = [int(d.int(0, len(shape) - 1))]
            op = d.pick(["ReduceMax", "ReduceMean"])
            total = d.node(op, [x, d.ints(at)]) if d.opset >= 18 else d.node(op, [x], axes=at)
            x = d.node("Sub", [y, total])
        elif kind == "Concat":
            at = d.int(0, len(shape) - 1)
            both = d.node("Concat", [x, y], axis=at)
            start = d.int(0, shape[at])
            x = d.node("Slice", [both, d.ints([start]), d.ints([start + shape[at]]), d.ints([at])])
        elif kind == "Transpose":
            perm = [int(p) for p in d.rng.permutation(len(shape))]
            moved = d.node("Tanh", [d.node("Transpose", [x], perm=perm)])
            x = d.node("Transpose", [moved], perm=[int(p) for p in np.argsort(perm)])
        elif kind == "Slice":
            part = d.node("Slice", [x, d.ints([shape[0] - 1]), d.ints([-shape[0] - 1]), d.ints([0]), d.ints([-1])])
            x = d.node("Add", [part, y])
        elif kind == "Cast":
            x = d.node("Cast", [d.node("Cast", [d.node("Floor", [x])], to=7)], to=1)
        elif kind == "Softmax":
            x = d.node("Softmax", [x], axis=d.int(-1, len(shape) - 1) if d.opset >= 13 else len(shape) - 1)
        else:
            x = d.node("Mul", [x, d.feed(np.array(d.pick([0.5, -1.0, 2.0]), "float32"), True)])
        made.append(x)
