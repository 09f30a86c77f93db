"""Constant folding of arithmetic on shapes at import, for numbers and for symbols of dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.slice_masks import SliceMasks
from tilewright.relay.frontend.common.whole import each, floored, remainder, taken, truncated
from tilewright.relay.frontend.tflite.node import Node, Value, plain

Folder = Callable[..., Any]
folders: dict[str, Folder] = {}


def _folds(*names: str) -> Callable[[Folder], Folder]:
    def register(f: Folder) -> Folder:
        for name in names:
            folders[name] = f
        return f

    return register


def folded(node: Node, inputs: list[Any]) -> list[Value] | None:
    """The results of an operator with known inputs that have symbols (SHAPE: always); None if it is not folded
    here."""
    folder = folders.get(node.name)
    if folder is None:
        return None
    if node.name in ("SHAPE", "RANK"):
        made = folder(node, inputs[0])
    else:
        arrays = [v.array if isinstance(v, Value) else None for v in inputs]
        if any([a is None for a in arrays]) or not any([a is not None and a.dtype == object for a in arrays]):
            return None
        made = folder(node, *arrays)
    if made is None:
        return None
    return [Value(array=settled(np.asarray(m), node)) for m in (made if isinstance(made, list) else [made])]


def settled(array: np.ndarray, node: Node) -> np.ndarray:
    """Symbols in their simplest form; an array of numbers if no symbols are left."""
    if array.dtype != object:
        return array
    flat = [plain(v) for v in array.reshape(-1).tolist()]
    if all([isinstance(v, int) for v in flat]):
        return np.array(flat, np.int64).reshape(array.shape)
    out = np.empty(len(flat), object)
    out[:] = flat
    return out.reshape(array.shape)


@_folds("SHAPE")
def _shape(node: Node, x: Value) -> np.ndarray | None:
    from tilewright.tir import Any as AnyDim

    shape = x.shape
    if any([isinstance(d, AnyDim) for d in shape]):
        return None
    out = np.empty(len(shape), object)
    out[:] = shape
    return out


@_folds("RANK")
def _rank(node: Node, x: Value) -> np.ndarray:
    return np.array(x.ndim, np.int32)


@_folds("CAST")
def _cast(node: Node, x: np.ndarray) -> np.ndarray | None:
    return x if node.out.dtype.startswith("int") else None


@_folds("RESHAPE")
def _reshape(node: Node, x: np.ndarray, shape: np.ndarray | None = None) -> np.ndarray | None:
    new = shape if shape is not None else node.get("new_shape")
    return None if new is None or new.dtype == object else x.reshape([int(d) for d in new.reshape(-1)])


@_folds("SQUEEZE")
def _squeeze(node: Node, x: np.ndarray) -> np.ndarray:
    axes = tuple([int(a) for a in node.get("squeeze_dims", [])])
    return x.squeeze(axes or None)


@_folds("EXPAND_DIMS")
def _expand(node: Node, x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, int(axis.reshape(-1)[0]))


@_folds("PACK")
def _pack(node: Node, *parts: np.ndarray) -> np.ndarray:
    return np.stack([p.astype(object) for p in parts], int(node.get("axis")))


@_folds("CONCATENATION")
def _concatenation(node: Node, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate([p.astype(object) for p in parts], int(node.get("axis")))


@_folds("SPLIT")
def _split(node: Node, axis: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, len(node.outputs), int(axis.reshape(-1)[0]))


@_folds("SPLIT_V")
def _split_v(node: Node, x: np.ndarray, sizes: np.ndarray, axis: np.ndarray) -> list[np.ndarray] | None:
    if sizes.dtype == object:
        return None
    place, counts = int(axis.reshape(-1)[0]), sizes.reshape(-1)
    rest = x.shape[place] - int(counts[counts >= 0].sum())
    return np.split(x, np.cumsum(np.where(counts < 0, rest, counts))[:-1], place)


@_folds("GATHER")
def _gather(node: Node, x: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    return None if indices.dtype == object else taken(x, indices, int(node.get("axis")), below=False)


@_folds("SLICE")
def _slice(node: Node, x: np.ndarray, begin: np.ndarray, size: np.ndarray) -> np.ndarray | None:
    if begin.dtype == object or size.dtype == object:
        return None
    index = [slice(b, None if s < 0 else b + s) for b, s in zip(begin.tolist(), size.tolist(), strict=True)]
    return np.asarray(x[tuple(index)])


@_folds("STRIDED_SLICE")
def _strided(node: Node, x: np.ndarray, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> np.ndarray | None:
    masks = SliceMasks.read(node.get)
    if (
        any([a.dtype == object for a in (begin, end, strides)])
        or masks.ellipsis
        or masks.new_axis
        or node.get("offset", False)
    ):
        return None
    return np.asarray(x[masks.key(begin.tolist(), end.tolist(), strides.tolist())])


def _binary(f: Callable[[Any, Any], Any]) -> Folder:
    return lambda node, a, b: f(a, b)


folders["ADD"] = _binary(np.add)
folders["SUB"] = _binary(np.subtract)
folders["MUL"] = _binary(np.multiply)


@_folds("DIV")
def _divide(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return each(truncated, a, b)


@_folds("FLOOR_DIV")
def _floor_divide(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return each(floored, a, b)


@_folds("FLOOR_MOD")
def _modulo(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return each(remainder, a, b)


@_folds("MAXIMUM")
def _maximum(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from tilewright.tir.op import max as larger

    made: np.ndarray = np.frompyfunc(larger, 2, 1)(a, b)
    return made


@_folds("MINIMUM")
def _minimum(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from tilewright.tir.op import min as smaller

    made: np.ndarray = np.frompyfunc(smaller, 2, 1)(a, b)
    return made


@_folds("REDUCE_PROD")
def _product(node: Node, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.asarray(np.prod(x, tuple(axes.reshape(-1).tolist()), keepdims=bool(node.get("keep_dims"))))


@_folds("FILL")
def _fill(node: Node, dims: np.ndarray, value: np.ndarray) -> np.ndarray | None:
    if dims.dtype == object:
        return None
    small(dims.tolist(), "its result")
    return np.full(dims.tolist(), value.item(), object)


@_folds("BROADCAST_ARGS")
def _broadcast_args(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    short, long = sorted([a.tolist(), b.tolist()], key=len)
    short = [1] * (len(long) - len(short)) + short
    out = np.empty(len(long), object)
    out[:] = [q if isinstance(p, int) and p == 1 else p for p, q in zip(short, long, strict=True)]
    return out
