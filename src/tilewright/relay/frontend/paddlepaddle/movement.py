"""Converters of operators that make, move and pick elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.paddlepaddle.node import ProgramOp, paddle_op
from tilewright.support.errors import OpNotImplemented


@paddle_op("reshape2", "reshape")
def _reshape(c: ProgramOp) -> Value:
    x, wanted = c.one(), c.numbers("shape", "Shape", "ShapeTensor")
    return c.reshape(x, [x.shape[k] if d == 0 else d for k, d in enumerate(wanted)])


@paddle_op("transpose2", "transpose")
def _transpose(c: ProgramOp) -> Value:
    return c.transpose(c.one(), c.ints("axis"))


@paddle_op("flatten_contiguous_range", "flatten2")
def _flatten(c: ProgramOp) -> Value:
    x = c.one()
    if c.kind == "flatten2":
        axis = c.whole("axis", 1)
        return c.reshape(x, [math.prod(c.static(x.shape[:axis], "the extents that it joins")), -1])
    start, stop = (c.axis(c.whole(k, d), x.ndim) for k, d in (("start_axis", 1), ("stop_axis", -1)))
    whole = math.prod(c.static(x.shape[start : stop + 1], "the extents that it joins"))
    return c.reshape(x, [*x.shape[:start], whole, *x.shape[stop + 1 :]])


@paddle_op("squeeze2", "squeeze")
def _squeeze(c: ProgramOp) -> Value:
    x = c.one()
    axes = [a for a in [c.axis(a, x.ndim) for a in c.ints("axes", [])] if x.shape[a] == 1]
    if not c.ints("axes", []):
        axes = [k for k, d in enumerate(x.shape) if d == 1]
    return c.call("squeeze", x, axis=tuple(axes)) if axes else x


@paddle_op("unsqueeze2", "unsqueeze")
def _unsqueeze(c: ProgramOp) -> Value:
    x = c.one()
    for axis in c.numbers("axes", "AxesTensor", "AxesTensorList"):
        x = c.call("expand_dims", x, axis=c.axis(axis, x.ndim + 1))
    return x


@paddle_op("concat")
def _concat(c: ProgramOp) -> Value:
    xs = c.inputs["X"]
    return c.concatenate(list(xs), c.numbers("axis", "AxisTensor")[0])


@paddle_op("stack")
def _stack(c: ProgramOp) -> Mapping[str, Value]:
    xs = list(c.inputs["X"])
    return {"Y": c.call("stack", xs, axis=c.axis(c.whole("axis"), xs[0].ndim + 1))}


@paddle_op("unstack", "unbind")
def _unstack(c: ProgramOp) -> Mapping[str, list[Value]]:
    x = c.one()
    return {"Y" if c.kind == "unstack" else "Out": c.steps(x, c.whole("axis"))}


@paddle_op("split")
def _split(c: ProgramOp) -> list[Value]:
    x = c.one()
    axis = c.axis(c.numbers("axis", "AxisTensor")[0], x.ndim)
    sizes = c.numbers("sections", "", "SectionsTensorList")
    if not sizes or c.whole("num"):
        return c.split(x, c.whole("num"), axis)
    if -1 in sizes:
        (extent,) = c.static([x.shape[axis]], "the extent that it splits")
        rest = extent - sum([s for s in sizes if s >= 0])
        sizes = [rest if s == -1 else s for s in sizes]
    return c.parts(x, sizes, axis)


@paddle_op("slice")
def _slice(c: ProgramOp) -> Value:
    x = c.one("Input")
    begins, ends = (
        c.numbers("starts", "StartsTensor", "StartsTensorList"),
        c.numbers("ends", "EndsTensor", "EndsTensorList"),
    )
    axes = [c.axis(a, x.ndim) for a in c.ints("axes")]
    out = x
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        (extent,) = c.static([x.shape[axis]], "the extent that it slices")
        begin, end, _ = slice(begin, end).indices(extent)
        out = c.cut(out, axis, begin, max(begin, end))
    gone = [c.axis(a, x.ndim) for a in c.ints("decrease_axis", [])]
    return c.call("squeeze", out, axis=tuple(gone)) if gone else out


@paddle_op("strided_slice")
def _strided(c: ProgramOp) -> Value:
    x = c.one("Input")
    axes = [c.axis(a, x.ndim) for a in c.ints("axes")]
    parts = [c.numbers(k, f"{k.title()}Tensor", f"{k.title()}TensorList") for k in ("starts", "ends", "strides")]
    extents = c.static([x.shape[a] for a in axes], "the extents that it slices")
    # Backwards, the end -1 stands before the first element.
    ends = [None if e == -1 and s < 0 else e for _, e, s in zip(*parts, strict=True)]
    places = [slice(b, e, s).indices(n) for b, e, s, n in zip(parts[0], ends, parts[2], extents, strict=True)]
    # An end before the first element is, to strided_slice, one below minus the extent.
    lasts = [e if e >= 0 else -n - 1 for (_, e, _), n in zip(places, extents, strict=True)]
    return c.call(
        "strided_slice",
        x,
        begin=tuple([p[0] for p in places]),
        end=tuple(lasts),
        strides=tuple([p[2] for p in places]),
        axes=tuple(axes),
    )


@paddle_op("tile")
def _tile(c: ProgramOp) -> Value:
    return c.call("tile", c.one(), reps=tuple(c.numbers("repeat_times", "RepeatTimes", "repeat_times_tensor")))


@paddle_op("expand_v2")
def _expand(c: ProgramOp) -> Value:
    x, wanted = c.one(), c.numbers("shape", "Shape", "expand_shapes_tensor")
    old = [1] * (len(wanted) - x.ndim) + list(x.shape)
    return c.broadcast(x, [o if d == -1 else d for d, o in zip(wanted, old, strict=True)])


@paddle_op("expand_as_v2")
def _expand_as(c: ProgramOp) -> Value:
    return c.broadcast(c.one(), c.one("Y").shape if c.has("Y") else c.ints("target_shape"))


@paddle_op("gather", "index_select")
def _gather(c: ProgramOp) -> Value:
    axis = (
        c.whole("dim")
        if c.kind == "index_select"
        else c.numbers("axis", "Axis")[0]
        if "axis" in c.attrs or c.has("Axis")
        else 0
    )
    x = c.one()
    return c.call("take", x, c.reshape(c.one("Index"), [-1]), axis=c.axis(axis, x.ndim))


@paddle_op("gather_nd")
def _gather_nd(c: ProgramOp) -> Value:
    places = c.one("Index")
    return c.call("gather_nd", c.one(), c.transpose(places, [places.ndim - 1, *range(places.ndim - 1)]))


@paddle_op("take_along_axis")
def _take_along(c: ProgramOp) -> Mapping[str, Value]:
    x = c.one("Input")
    return {"Result": c.call("gather", x, c.one("Index"), axis=c.axis(c.whole("Axis"), x.ndim))}


@paddle_op("lookup_table_v2")
def _lookup(c: ProgramOp) -> Value:
    places, table = c.one("Ids"), c.one("W")
    out = c.call("take", table, places, axis=0)
    empty = c.whole("padding_idx", -1)
    if empty < 0:
        return out
    kept = c.call("expand_dims", c.call("not_equal", places, empty), axis=places.ndim)
    return c.call("where", kept, out, 0.0)


@paddle_op("one_hot_v2")
def _one_hot(c: ProgramOp) -> Value:
    kind = c.dtype("dtype", "float32")
    on, off = c.number(1, kind), c.number(0, kind)
    return c.call("one_hot", c.one(), on, off, depth=c.numbers("depth", "depth_tensor")[0], axis=-1, dtype=kind)


@paddle_op("where")
def _where(c: ProgramOp) -> Value:
    return c.call("where", c.one("Condition"), c.one(), c.one("Y"))


@paddle_op("cast")
def _cast(c: ProgramOp) -> Value:
    return c.cast(c.one(), c.dtype("out_dtype"))


@paddle_op("assign")
def _assign(c: ProgramOp) -> Value:
    return c.one()


@paddle_op("shape")
def _shape(c: ProgramOp) -> Value:
    x = c.one("Input")
    if all([isinstance(d, int) for d in x.shape]):
        return Value(array=np.array(x.shape, "int32"))
    return c.cast(c.call("stack", [c.extent(x, k) for k in range(x.ndim)], axis=0), "int32")


@paddle_op("fill_constant")
def _fill(c: ProgramOp) -> Value:
    kind, text = c.dtype("dtype", "float32"), c.text("str_value")
    shape: list[Any] = c.numbers("shape", "ShapeTensor", "ShapeTensorList")
    value = float(text) if text else c.real("value")
    return c.full(shape, value if kind.startswith(("float", "bfloat")) else int(value), kind)


@paddle_op("fill_any_like")
def _fill_like(c: ProgramOp) -> Value:
    x = c.one()
    kind = c.dtype("dtype", x.dtype)
    value = c.real("value")
    return c.full(x.shape, value if kind.startswith(("float", "bfloat")) else int(value), kind)


@paddle_op("assign_value")
def _value(c: ProgramOp) -> Value:
    lists = ("values", "fp32_values", "int32_values", "int64_values", "bool_values", "fp64_values")
    found: list[Any] = next((c.attrs[k] for k in lists if c.attrs.get(k)), [])
    return Value(array=np.array(found, c.dtype("dtype", "float32")).reshape(c.ints("shape")))


@paddle_op("range")
def _range(c: ProgramOp) -> Value:
    start, end, step = (c.known(c.one(k), k).reshape(-1)[0] for k in ("Start", "End", "Step"))
    return Value(array=np.arange(start, end, step).astype(c.one("Start").dtype))


@paddle_op("pad3d", "pad2d")
def _pad(c: ProgramOp) -> Value:
    x, mode = c.one(), c.text("mode", "constant")
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge"}
    if mode not in modes:
        raise c.refuse("mode", mode, ", ".join(modes))
    given = c.numbers("paddings", "Paddings")
    # From the last axis to the first: before and after.
    pairs = list(zip(given[::2], given[1::2], strict=True))
    pairs = pairs[::-1] if c.kind == "pad3d" else pairs
    last = c.text("data_format", "NCHW").endswith("C")
    width = [(0, 0), *pairs, (0, 0)] if last else [(0, 0), (0, 0), *pairs]
    return c.pad(x, width, c.real("value", c.real("pad_value")), modes[mode])


@paddle_op("flip")
def _flip(c: ProgramOp) -> Value:
    x = c.one()
    for axis in c.ints("axis"):
        x = c.call("reverse", x, axis=c.axis(axis, x.ndim))
    return x


@paddle_op("roll")
def _roll(c: ProgramOp) -> Value:
    x = c.one()
    shifts, axes = c.numbers("shifts", "ShiftsTensor"), c.ints("axis", [])
    if not axes:
        flat = _rolled(c, c.reshape(x, [-1]), 0, shifts[0])
        return c.reshape(flat, x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(c, x, c.axis(axis, x.ndim), shift)
    return x


def _rolled(c: ProgramOp, x: Value, axis: int, shift: int) -> Value:
    (extent,) = c.static([x.shape[axis]], "the extent that it rolls")
    at = -shift % extent
    return c.concatenate([c.cut(x, axis, at, extent), c.cut(x, axis, 0, at)], axis) if at else x


@paddle_op("pixel_shuffle")
def _pixels(c: ProgramOp) -> Value:
    if c.text("data_format", "NCHW") != "NCHW":
        raise c.refuse("data_format", c.text("data_format"), "NCHW")
    x, s = c.one(), c.whole("upscale_factor", 1)
    depth, rows, columns = c.static(x.shape[1:], "the channels, rows and columns of its input")
    if depth % (s * s):
        raise OpNotImplemented(f"its {depth} channels are not a multiple of {s * s}")
    apart = c.reshape(x, [x.shape[0], depth // (s * s), s, s, rows, columns])
    return c.reshape(c.transpose(apart, [0, 1, 4, 2, 5, 3]), [x.shape[0], depth // (s * s), rows * s, columns * s])
