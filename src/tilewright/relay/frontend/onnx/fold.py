"""Constant folding at import: chains of Shape, Gather, Concat, Reshape, ... that exporters write, also with symbols."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.arith import Analyzer
from tilewright.formats.onnx_messages import messages, numpy_type
from tilewright.ir import PrimExpr
from tilewright.relay.frontend.common.builder import need_extents
from tilewright.relay.frontend.common.folding import Folder, Folders
from tilewright.relay.frontend.common.value import MOST_MADE, are_numbers
from tilewright.relay.frontend.common.whole import each, taken, truncated
from tilewright.relay.frontend.onnx.kinds import kind_of
from tilewright.relay.frontend.onnx.value import OnnxNode, Value
from tilewright.relay.op.arithmetic.binary import whole_quotient

ALWAYS = {
    "Reshape",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "ConstantOfShape",
    "Constant",
    "Shape",
    "Size",
    "Range",
    "NonZero",
}
"""Operators that are folded at any size: they cost nothing, or have no other implementation."""
LIMIT = 1 << 16
"""The largest number of elements that other folded nodes may read and write. FoldConstant folds the rest after import."""

folders = Folders()
_folds = folders.of


def try_fold(node: OnnxNode, inputs: list[Value | None]) -> np.ndarray | None:
    """The value of a foldable node with one output and known inputs, else None."""
    folder = folders.get(node.op_type)
    if folder is None or len([o for o in node.outputs if o]) != 1:
        return None
    if node.op_type in ("Shape", "Size"):
        known: np.ndarray | None = folder(node, inputs[0])
        return known
    arrays = [None if v is None else v.array for v in inputs]
    if any(v is not None and a is None for v, a in zip(inputs, arrays, strict=True)):
        return None
    if node.op_type not in ALWAYS and sum(a.size for a in arrays if a is not None) > LIMIT:
        return None
    result = folder(node, *arrays)
    return None if result is None else np.asarray(result)


def _axes(node: OnnxNode, given: np.ndarray | None) -> list[int] | None:
    if given is not None:
        return [int(a) for a in given.reshape(-1)]
    axes = node.get("axes")
    return None if axes is None else [int(a) for a in axes]


@_folds("Shape")
def _shape(node: OnnxNode, x: Value | None) -> np.ndarray | None:
    assert x is not None
    shape = x.shape[node.get("start", 0) : node.get("end")]
    if all(isinstance(d, int) for d in shape):
        return np.array(shape, np.int64)
    from tilewright.tir import Any as AnyDim

    if any(isinstance(d, AnyDim) for d in shape):
        return None
    out = np.empty(len(shape), object)
    out[:] = shape
    return out


@_folds("Size")
def _size(node: OnnxNode, x: Value | None) -> np.ndarray | None:
    assert x is not None
    shape = x.shape
    return np.array(int(np.prod(shape)), np.int64) if are_numbers(shape) else None


@_folds("Constant")
def _constant(node: OnnxNode) -> np.ndarray:
    for key, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if key in node.attrs:
            return np.array(node.attrs[key], dtype)
    for key in ("value_string", "value_strings"):
        if key in node.attrs:
            return np.array(node.attrs[key], object)
    value = node.get("value", node.get("sparse_value"))
    if isinstance(value, np.ndarray):
        return value
    raise ValueError("the Constant node has no value")


@_folds("ConstantOfShape")
def _constant_of_shape(node: OnnxNode, shape: np.ndarray) -> np.ndarray | None:
    if shape.dtype == object:
        return None
    if math.prod([int(d) for d in shape]) > MOST_MADE:
        return None
    value = node.get("value", np.zeros(1, np.float32))
    return np.full([int(d) for d in shape], value.reshape(-1)[0], value.dtype)


@_folds("Gather")
def _gather(node: OnnxNode, x: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    extent = x.shape[node.place(node.get("axis", 0), x.ndim)]
    if indices.dtype != object and ((indices < -extent) | (indices >= extent)).any():
        return None  # which a run says
    return taken(x, indices, node.get("axis", 0), below=True)


@_folds("Concat")
def _concat(node: OnnxNode, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, node.get("axis", 0))


@_folds("Unsqueeze")
def _unsqueeze(node: OnnxNode, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    given = _axes(node, axes) or []
    return np.expand_dims(x, tuple(given))


@_folds("Squeeze")
def _squeeze(node: OnnxNode, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    given = _axes(node, axes)
    return np.squeeze(x, None if given is None else tuple(given))


@_folds("Reshape")
def _reshape(node: OnnxNode, x: np.ndarray, given: np.ndarray | None = None) -> np.ndarray | None:
    shape = np.array(node.get("shape"), np.int64) if given is None else given
    if shape.dtype == object:
        return None
    new = [int(d) for d in shape]
    need_extents(new)
    if not node.get("allowzero", 0):
        new = [x.shape[i] if d == 0 else d for i, d in enumerate(new)]
    return x.reshape(new)


@_folds("Flatten")
def _flatten(node: OnnxNode, x: np.ndarray) -> np.ndarray:
    axis = node.get("axis", 1)
    axis = axis if axis == x.ndim else node.place(axis, x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), -1)


@_folds("Transpose")
def _transpose(node: OnnxNode, x: np.ndarray) -> np.ndarray:
    return x.transpose(node.get("perm"))


@_folds("Slice")
def _slice(
    node: OnnxNode,
    x: np.ndarray,
    starts: np.ndarray | None = None,
    ends: np.ndarray | None = None,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> np.ndarray | None:
    begin = node.get("starts") if starts is None else starts.tolist()
    end = node.get("ends") if ends is None else ends.tolist()
    where = node.get("axes") if axes is None else axes.tolist()
    by = [1] * len(begin) if steps is None else steps.tolist()
    if not all(isinstance(v, int) for v in [*begin, *end]):
        return None
    index = [slice(None)] * x.ndim
    where = node.places(range(len(begin)) if where is None else where, x.ndim)
    for k, a in enumerate(where):
        low = begin[k]
        index[a] = slice(low, None if by[k] < 0 and end[k] < -x.shape[a] else end[k], by[k])
    return x[tuple(index)]


@_folds("Cast")
def _cast(node: OnnxNode, x: np.ndarray) -> np.ndarray | None:
    dtype = numpy_type(_element(node.get("to")))
    if kind_of(dtype):
        return None
    if x.dtype == object:
        return x if dtype.kind == "i" else None
    return x.astype(dtype)


def _element(to: Any) -> int:
    return int(messages().TensorProto.DataType.Value(to)) if isinstance(to, str) else int(to)


def _binary(f: Callable[[Any, Any], Any]) -> Folder:
    def fold(node: OnnxNode, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        result = np.asarray(f(a, b))
        if result.dtype == object:
            # Symbolic arithmetic may result in numbers.
            from tilewright.topi.utils import as_int

            flat = [as_int(v) for v in result.reshape(-1)]
            if all(isinstance(v, (int, np.integer)) for v in flat):
                return np.array(flat, np.int64).reshape(result.shape)
            out = np.empty(result.shape, object)
            out.reshape(-1)[:] = flat
            return out
        return result.astype(a.dtype if a.dtype != object else b.dtype, copy=False)

    return fold


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == object or b.dtype == object:
        return each(truncated, a, b)
    with np.errstate(all="ignore"):
        return whole_quotient(a, b) if a.dtype.kind in "iu" else np.asarray(a / b)


folders["Add"] = _binary(np.add)
folders["Sub"] = _binary(np.subtract)
folders["Mul"] = _binary(np.multiply)
folders["Div"] = _binary(_divide)


def _plain(f: Callable[..., Any]) -> Folder:
    def fold(node: OnnxNode, *args: np.ndarray) -> np.ndarray | None:
        return None if any(a.dtype == object for a in args) else np.asarray(f(*args))

    return fold


NUMPY: dict[str, Callable[..., Any]] = {
    "And": np.logical_and, "Or": np.logical_or, "Not": np.logical_not, "Neg": np.negative, "Abs": np.abs, "Floor": np.floor,
    "Ceil": np.ceil, "Sqrt": np.sqrt,
}  # fmt: skip
for _name, _f in NUMPY.items():
    folders[_name] = _plain(_f)


def _compared(f: Callable[[Any, Any], Any], decided: Callable[[int, int], bool | None]) -> Folder:
    """decided: the result of the comparison from the bounds of the operands' difference, or None."""

    def fold(node: OnnxNode, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        if a.dtype != object and b.dtype != object:
            return np.asarray(f(a, b))
        known = []
        for d in np.asarray(np.subtract(a, b, dtype=object)).reshape(-1):
            bound = Analyzer().const_int_bound(d) if isinstance(d, PrimExpr) else None
            known.append(decided(int(d), int(d)) if bound is None else decided(bound.min_value, bound.max_value))
        if any([k is None for k in known]):
            return None
        return np.array(known, bool).reshape(np.broadcast_shapes(a.shape, b.shape))

    return fold


folders["Equal"] = _compared(
    np.equal, lambda low, high: False if low > 0 or high < 0 else True if low == high else None
)
folders["Less"] = _compared(np.less, lambda low, high: True if high < 0 else False if low >= 0 else None)
folders["Greater"] = _compared(np.greater, lambda low, high: True if low > 0 else False if high <= 0 else None)
folders["LessOrEqual"] = _compared(np.less_equal, lambda low, high: True if high <= 0 else False if low > 0 else None)
folders["GreaterOrEqual"] = _compared(
    np.greater_equal, lambda low, high: True if low >= 0 else False if high < 0 else None
)


@_folds("Where")
def _where(node: OnnxNode, chosen: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    return None if chosen.dtype == object else np.where(chosen, a, b)


@_folds("Range")
def _range(node: OnnxNode, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray | None:
    if any(a.dtype == object for a in (start, limit, delta)):
        return None
    values: list[Any] = [start.item(), limit.item(), delta.item()]
    if values[2] and not abs((values[1] - values[0]) / values[2]) <= MOST_MADE:
        return None
    return np.asarray(np.arange(*values), start.dtype)


@_folds("NonZero")
def _nonzero(node: OnnxNode, x: np.ndarray) -> np.ndarray:
    return np.array(np.nonzero(x), np.int64)


@_folds("Expand")
def _expand(node: OnnxNode, x: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    if shape.dtype == object or math.prod(shape.reshape(-1).tolist()) > LIMIT:
        return None
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))).copy()
