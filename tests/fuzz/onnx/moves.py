"""Generators of models of one operator that moves, picks or joins elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.onnx.case import Draw
from tests.fuzz.onnx.ops import ANY, CODE, NUMBERS, axis, broadcast, ops


@ops
def reshapes(d: Draw) -> None:
    """A chain of views, with arithmetic in between."""
    shape = [d.pick([1, 2, 3, 4, 6, 8]) for _ in range(d.int(1, 4))]
    x = d.data(shape, d.pick(NUMBERS))
    for _ in range(d.int(1, 5)):
        x, shape = view(d, x, shape)
    d.node("Neg", [x])


def view(d: Draw, x: str, shape: list[int]) -> tuple[str, list[int]]:
    kind = d.pick(["Reshape", "Reshape", "Transpose", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Relu"])
    if kind == "Reshape":
        pool, new = list(shape), []
        while pool:
            part = [pool.pop(d.int(0, len(pool) - 1)) for _ in range(min(len(pool), d.int(1, 2)))]
            new.append(int(np.prod(part)))
        codes = list(new)
        if codes and d.maybe(0.4):
            codes[d.int(0, len(codes) - 1)] = -1
        if len(shape) == len(new) and shape[0] == new[0] and codes[0] != -1 and d.maybe():
            codes[0] = 0
        return d.node("Reshape", [x, d.ints(codes)]), new
    if kind == "Transpose" and shape:
        perm = [int(p) for p in d.rng.permutation(len(shape))]
        if d.maybe(0.1):
            return d.node("Transpose", [x]), shape[::-1]
        return d.node("Transpose", [x], perm=perm), [shape[p] for p in perm]
    if kind == "Squeeze" and 1 in shape:
        at = shape.index(1)
        given = at - len(shape) if d.maybe() else at
        return d.node("Squeeze", [x, d.ints([given])]), shape[:at] + shape[at + 1 :]
    if kind == "Unsqueeze" and len(shape) < 5:
        at = d.int(0, len(shape))
        given = at - len(shape) - 1 if d.maybe() else at
        return d.node("Unsqueeze", [x, d.ints([given])]), [*shape[:at], 1, *shape[at:]]
    if kind == "Flatten" and shape:
        at = d.int(0, len(shape))
        return d.node("Flatten", [x], axis=at), [int(np.prod(shape[:at])), int(np.prod(shape[at:]))]
    return d.node("Abs", [x]), shape


@ops
def transpose(d: Draw) -> None:
    shape = d.shape(d.int(1, 5))
    d.node("Transpose", [d.data(shape, d.pick(ANY))], perm=[int(p) for p in d.rng.permutation(len(shape))])


@ops
def concat(d: Draw) -> None:
    shape = d.shape(d.int(1, 4), 1000)
    at, dtype = axis(d, len(shape)), d.pick(ANY)
    parts = []
    for _ in range(d.int(1, 5)):
        part = list(shape)
        part[at] = d.pick([1, 2, 3, 5, 8, 16])
        parts.append(d.feed(d.array(part, dtype, 0, 2)))
    if not any(p in d.inputs for p in parts):
        parts.append(d.data(shape, dtype, 0, 2))
    d.node("Concat", parts, axis=at)


@ops
def split(d: Draw) -> None:
    shape = d.shape(d.int(1, 4), 1000)
    at, count = axis(d, len(shape)), d.int(1, 4)
    dtype = d.pick(["float32", "int64", "bool"])
    if d.maybe():
        sizes = [d.int(1, 5) for _ in range(count)]
        shape[at] = sum(sizes)
        d.node("Split", [d.data(shape, dtype), d.ints(sizes)], count, axis=at)
        return
    shape[at] = count * d.int(1, 4)
    if d.opset >= 18:
        shape[at] += d.int(0, count - 1) if shape[at] // count >= count else 0
        d.node("Split", [d.data(shape, dtype)], count, axis=at, num_outputs=count)
    else:
        d.node("Split", [d.data(shape, dtype)], count, axis=at)


@ops
def slices(d: Draw) -> None:
    shape = d.shape(d.int(1, 4))
    some = [int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))]]
    starts, ends, steps = [], [], []
    for a in some:
        e = shape[a]
        step = d.pick([1, 1, 1, 2, 3, -1, -1, -2])
        low, high = d.int(0, e - 1), d.int(0, e - 1)
        low, high = min(low, high), max(low, high) + 1
        if step > 0:
            start, end = low, d.pick([high, high, 2**31 - 1, 2**63 - 1])
            start, end = (start - e if d.maybe(0.3) else start), (end - e if end < e and d.maybe(0.3) else end)
        else:
            start, end = d.pick([high - 1, e + 5]), d.pick([low - 1 if low else -e - 1, -(2**63), -e - 3])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    axes = [a - len(shape) if d.maybe() else a for a in some]
    inputs = [d.data(shape, d.pick(NUMBERS)), d.ints(starts), d.ints(ends), d.ints(axes)]
    if any(s != 1 for s in steps) or d.maybe():
        inputs.append(d.ints(steps))
    d.node("Slice", inputs)


@ops
def gather(d: Draw) -> None:
    op = d.pick(["Gather", "Gather", "GatherElements", "GatherND"])
    shape = d.shape(d.int(1, 4))
    x = d.data(shape, d.pick(NUMBERS))
    kind = d.pick(["int64", "int32"]) if op != "GatherND" else "int64"
    known = d.maybe()
    if op == "Gather":
        at = axis(d, len(shape))
        places = d.rng.integers(-shape[at], shape[at], d.shape(d.int(0, 2), 60))
        d.node(op, [x, d.feed(np.asarray(places, kind), known)], axis=at)
    elif op == "GatherElements":
        at = axis(d, len(shape))
        which = [d.int(1, e) for e in shape]
        d.node(op, [x, d.feed(np.asarray(d.rng.integers(-shape[at], shape[at], which), kind), known)], axis=at)
    else:
        depth = d.int(1, len(shape))
        places = np.stack([d.rng.integers(-e, e, (d.int(1, 5) * 0 + 4, 3)) for e in shape[:depth]], -1)
        d.node(op, [x, d.feed(np.asarray(places, "int64"), known)])


@ops
def scatter(d: Draw) -> None:
    shape = d.shape(d.int(1, 3), 500)
    dtype = d.pick(["float32", "float32", "int64"])
    d.opset = d.pick([13, 16, 18])
    reduction = (
        d.pick([None, "none", "add", "mul", *(["max", "min"] if d.opset >= 18 else [])]) if d.opset >= 16 else None
    )
    x, known = d.data(shape, dtype), d.maybe()
    if d.maybe():
        at = axis(d, len(shape))
        if reduction in (None, "none"):
            # Every place once: the order of updates is not defined.
            where = np.argsort(d.rng.random(shape), at)
            where = where - np.asarray(d.rng.integers(0, 2, shape)) * shape[at]
        else:
            where = d.rng.integers(-shape[at], shape[at], shape)
        d.node(
            "ScatterElements",
            [x, d.feed(where.astype("int64"), known), d.data(shape, dtype)],
            axis=at,
            reduction=reduction,
        )
        return
    rows = d.rng.permutation(shape[0])[: d.int(1, shape[0])].reshape(-1, 1)
    d.node(
        "ScatterND",
        [x, d.feed(rows.astype("int64"), known), d.data([len(rows), *shape[1:]], dtype)],
        reduction=reduction,
    )


@ops
def expand(d: Draw) -> None:
    a, b = broadcast(d)
    x = d.data(a, d.pick(ANY))
    if d.maybe():
        d.node("Expand", [x, d.ints(b)])
    else:
        d.node("Tile", [x, d.ints([d.int(1, 3) for _ in a])])


@ops
def depth_space(d: Draw) -> None:
    block, n, c, h, w = d.int(2, 3), d.int(1, 2), d.pick([1, 2, 3, 5]), d.int(1, 7), d.int(1, 7)
    if d.maybe():
        d.node("DepthToSpace", [d.data([n, c * block * block, h, w])], blocksize=block, mode=d.pick(["DCR", "CRD"]))
    else:
        d.node("SpaceToDepth", [d.data([n, c, h * block, w * block])], blocksize=block)


@ops
def topk(d: Draw) -> None:
    shape = d.shape(d.int(1, 3), 1000)
    at = axis(d, len(shape))
    values = d.rng.permutation(int(np.prod(shape))).reshape(shape)
    if d.maybe(0.3):
        values = values // 3  # ties: the lower index comes first
    x = d.feed(values.astype(d.pick(["float32", "int64", "float64"])), False)
    d.node("TopK", [x, d.ints([d.int(1, shape[at])])], 2, axis=at, largest=d.int(0, 1), sorted=1)


@ops
def one_hot(d: Draw) -> None:
    depth = d.int(1, 9)
    shape = d.shape(d.int(1, 3), 300)
    indices = d.feed(np.asarray(d.rng.integers(-depth - 1, depth + 2, shape), d.pick(["int64", "int32"])), False)
    kind = d.pick(["float32", "int64", "int32"])
    count = d.feed(np.array(depth if d.maybe() else [depth], "int64"), True)
    d.node(
        "OneHot",
        [indices, count, d.feed(np.array([d.int(-2, 0), d.int(1, 5)], kind), True)],
        axis=axis(d, len(shape) + 1),
    )


@ops
def trilu(d: Draw) -> None:
    d.opset = max(d.opset, 14)
    shape = d.shape(d.int(2, 4))
    inputs = [d.data(shape, d.pick(["float32", "int64", "float64"]))]
    if d.maybe(0.7):
        inputs.append(d.feed(np.array(d.int(-5, 5), "int64"), True))
    d.node("Trilu", inputs, upper=d.int(0, 1))


@ops
def resize(d: Draw) -> None:
    method = d.pick(["nearest", "nearest", "linear", "cubic"])
    shape = [d.int(1, 2), d.pick([1, 3, 8, 17]), d.int(2, 9), d.int(2, 9)]
    mode = d.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attrs: dict[str, Any] = {"mode": method, "coordinate_transformation_mode": mode}
    if method == "nearest":
        attrs["nearest_mode"] = d.pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if method == "cubic":
        attrs |= {"cubic_coeff_a": d.pick([-0.5, -0.75]), "exclude_outside": d.int(0, 1) if mode == "half_pixel" else 0}
    x = d.data(shape)
    if d.maybe():
        d.node("Resize", [x, "", "", d.ints([*shape[:2], d.int(1, 17), d.int(1, 17)])], **attrs)
    else:
        # Where an extent times its scale is not an integer, ONNX Runtime's corners are not those of ONNX's own tests.
        choices = [1.0, 2.0, 3.0] if mode == "align_corners" else [0.5, 0.6, 1.0, 1.5, 2.0, 3.0, 2.3]
        scales = [1.0, 1.0, *[d.pick(choices) for _ in range(2)]]
        d.node("Resize", [x, "", d.feed(np.array(scales, "float32"), True)], **attrs)


@ops
def upsample(d: Draw) -> None:
    d.opset = d.pick([9, 10])
    scales = d.feed(np.array([1, 1, d.int(1, 3), d.int(1, 3)], "float32"), True)
    d.node(
        "Upsample" if d.opset == 9 else "Resize",
        [d.data([1, d.channels(), d.int(1, 7), d.int(2, 7)]), scales],
        mode=d.pick(["nearest", "linear"]),
    )


@ops
def known_at_import(d: Draw) -> None:
    """Tensors that are made of constants, used by arithmetic."""
    kind = d.pick(["Range", "ConstantOfShape", "Shape", "NonZero", "EyeLike", "Size"])
    shape = d.shape(2)
    x = d.data(shape)
    if kind == "Range":
        dtype = d.pick(["int64", "float32"])
        made = d.node(
            "Range", [d.feed(np.array(v, dtype), True) for v in (d.int(-3, 3), shape[1] * 2 + 3, d.pick([1, 2]))]
        )
        d.node("Cast", [made], to=CODE["float32"])
    elif kind == "ConstantOfShape":
        made = d.node("ConstantOfShape", [d.node("Shape", [x])])
        d.node("Add", [made, x])
    elif kind == "EyeLike":
        d.node("Mul", [d.node("EyeLike", [x], k=d.int(-2, 2)), x])
    elif kind == "NonZero":
        d.node("NonZero", [d.feed(d.array(shape, "int64", -1, 1), True)])
    else:
        d.node(kind, [x])


@ops
def zero_sized(d: Draw) -> None:
    """Tensors without elements."""
    shape = d.shape(d.int(1, 3), 60)
    at = d.int(0, len(shape) - 1)
    empty = list(shape)
    empty[at] = 0
    kind = d.pick(
        ["Relu", "Add", "Concat", "Reshape", "ReduceSum", "MatMul", "Transpose", "Slice", "Cast", "Softmax", "Gather"]
    )
    if kind == "Concat":
        d.node(kind, [d.data(shape), d.data(empty)], axis=at)
    elif kind == "Add":
        d.node(kind, [d.data(empty), d.data([1])])
    elif kind == "Reshape":
        d.node(kind, [d.data(empty), d.ints([0, -1] if at == 0 and len(shape) < 0 else [0])])
    elif kind == "ReduceSum":
        d.node(kind, [d.data(empty), d.ints([d.int(0, len(shape) - 1)])], keepdims=d.int(0, 1))
    elif kind == "MatMul":
        a, b = d.pick([([0, 3], [3, 4]), ([2, 3], [3, 0]), ([2, 0], [0, 4]), ([0, 2, 3], [3, 4])])
        d.node(kind, [d.data(a), d.data(b)])
    elif kind == "Slice":
        d.node(kind, [d.data(shape), d.ints([1]), d.ints([1]), d.ints([at])])
    elif kind == "Gather":
        d.node(kind, [d.data(shape), d.feed(np.zeros((0,), "int64"), d.maybe())], axis=at)
    elif kind == "Cast":
        d.node(kind, [d.data(empty)], to=CODE["int32"])
    else:
        d.node(kind, [d.data(empty)])
