"""Tensor expressions on NumPy arrays, an operation at a time, without the interpreter: what a compiled program must equal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.ir import FloatImm, IntImm
from tilewright.node.field_values import numpy_dtype
from tilewright.te.operation import ComputeOp, PlaceholderOp, ScanOp
from tilewright.te.primfunc import post_order

Array = np.ndarray[Any, Any]

_ARITH: dict[type, Callable[[Any, Any], Any]] = {
    tir.Add: np.add,
    tir.Sub: np.subtract,
    tir.Mul: np.multiply,
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
    tir.And: np.logical_and,
    tir.Or: np.logical_or,
    # A NaN on the left stays, one on the right is dropped: the order of the comparison.
    tir.Min: lambda a, b: np.where(b < a, b, a),
    tir.Max: lambda a, b: np.where(b > a, b, a),
}

_CALLS: dict[str, Callable[..., Any]] = {
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
    "tir.bitwise_not": np.bitwise_not,
    "tir.shift_left": np.left_shift,
    "tir.shift_right": np.right_shift,
    "tir.fabs": np.abs,
    "tir.floor": np.floor,
    "tir.ceil": np.ceil,
    "tir.trunc": np.trunc,
    "tir.sqrt": np.sqrt,
    "tir.exp": np.exp,
    "tir.tanh": np.tanh,
    "tir.sin": np.sin,
    "tir.cos": np.cos,
    "tir.log": np.log,
    "tir.erf": np.vectorize(math.erf, otypes=[np.float64]),
    "tir.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tir.likely": lambda x: x,
}


_SMOOTH = ("tir.sqrt", "tir.exp", "tir.tanh", "tir.sin", "tir.cos", "tir.log", "tir.erf", "tir.sigmoid")


def _divided(kind: type, a: Array, b: Array) -> Array:
    if kind in (tir.Div, tir.Mod) and a.dtype.kind in "iu":
        remainder = np.fmod(a, b)
        return np.asarray((a - remainder) // b if kind is tir.Div else remainder)
    if kind is tir.Div:
        return np.asarray(a / b)
    return np.asarray(np.floor_divide(a, b) if kind is tir.FloorDiv else np.remainder(a, b))


class _Evaluator:
    """Expressions over grids of indices: every value is an array that broadcasts over the operation's axes."""

    def __init__(self, tensors: Mapping[te.Tensor, Array], env: dict[tir.Var, Array]) -> None:
        self.tensors, self.env = tensors, env

    def __call__(self, e: Any, live: Array) -> Array:
        """The value of an expression; where `live` is false it is not asked for, and may be anything."""
        kind = type(e)
        result = np.asarray(self._value(kind, e, live))
        wanted = numpy_dtype(e.dtype)
        return result if result.dtype == wanted else result.astype(wanted)

    def _value(self, kind: type, e: Any, live: Array) -> Any:
        if isinstance(e, tir.Var):
            return self.env[e]
        if kind in (IntImm, FloatImm):
            return np.asarray(e.value).astype(numpy_dtype(e.dtype))
        if kind in _ARITH:
            return _ARITH[kind](self(e.a, live), self(e.b, live))
        if kind in (tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod):
            a, b = self(e.a, live), self(e.b, live)
            if a.dtype.kind in "iu":
                if np.any((b == 0) & live):
                    raise ZeroDivisionError(str(e))
                b = np.where(b == 0, 1, b).astype(b.dtype)
            return _divided(kind, a, b)
        if kind is tir.Not:
            return ~self(e.a, live)
        if kind is tir.Select:
            return np.where(self(e.condition, live), self(e.true_value, live), self(e.false_value, live))
        if kind is tir.Cast:
            return self._cast(self(e.value, live), numpy_dtype(e.dtype))
        if kind is tir.Let:
            self.env[e.var] = self(e.value, live)
            return self(e.body, live)
        if kind is tir.ProducerLoad:
            return self._load(e, live)
        if kind is tir.Call:
            if e.op.name == "tir.if_then_else":
                condition = self(e.args[0], live)
                return np.where(condition, self(e.args[1], live & condition), self(e.args[2], live & ~condition))
            values = [self(a, live) for a in e.args]
            if e.op.name in _SMOOTH and values[0].dtype.itemsize < 4:
                values = [v.astype(np.float32) for v in values]
            return _CALLS[e.op.name](*values)
        raise TypeError(f"the reference has no rule for {kind.__name__}: {e}")

    def _cast(self, value: Array, kind: np.dtype[Any]) -> Array:
        if kind.kind in "iu" and value.dtype.kind not in "iub":
            wide, info = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0)), np.iinfo(kind)
            inside = np.clip(wide, float(info.min), float(info.max))
            exact = np.where(inside >= 2.0**62, 0.0, inside).astype(np.int64).astype(kind)
            return np.asarray(np.where(inside >= 2.0**62, info.max, exact)).astype(kind)
        if kind == np.bool_:
            return np.asarray(value != 0)
        if kind.itemsize < 4 and value.dtype == np.float64 and kind.kind not in "iu":
            value = value.astype(np.float32)
        return value.astype(kind)

    def _load(self, e: tir.ProducerLoad, live: Array) -> Array:
        array, places = self.tensors[e.producer], []
        for index, extent in zip(e.indices, array.shape, strict=True):
            at = self(index, live).astype(np.int64)
            if np.any(((at < 0) | (at >= extent)) & live):
                raise IndexError(f"{e} outside a dimension of {extent}")
            places.append(np.clip(at, 0, max(extent - 1, 0)))
        return np.asarray(array[tuple(places)])


def _grid(axes: Sequence[tir.IterVar], sizes: dict[tir.Var, Array]) -> tuple[dict[tir.Var, Array], tuple[int, ...]]:
    """Each axis as an array along a dimension of its own."""
    evaluate = _Evaluator({}, dict(sizes))
    shape = tuple([int(evaluate(iv.dom.extent, np.True_)) for iv in axes])
    env = {}
    for k, (iv, n) in enumerate(zip(axes, shape, strict=True)):
        env[iv.var] = np.arange(n).astype(iv.var.dtype).reshape([-1 if d == k else 1 for d in range(len(shape))])
    return env, shape


def _compute(
    op: ComputeOp, tensors: Mapping[te.Tensor, Array], sizes: dict[tir.Var, Array], begin: int = 0
) -> list[Array]:
    """The outputs; those before `begin` along the first dimension may be anything."""
    env, shape = _grid(op.axis, sizes)
    evaluate = _Evaluator(tensors, {**sizes, **env})
    live = np.ones(shape, np.bool_)
    live[:begin] = False
    if not isinstance(op.body[0], tir.Reduce):
        return [np.broadcast_to(evaluate(e, live), shape).copy() for e in op.body]
    r = op.body[0]
    combiner = r.combiner
    values = [np.broadcast_to(evaluate(e, live), shape) for e in combiner.identity_element]
    if r.init:
        values = [np.broadcast_to(evaluate(e, live), shape) for e in r.init]
    _, extents = _grid(r.axis, sizes)
    first = [int(evaluate(iv.dom.min, np.True_)) for iv in r.axis]
    for point in itertools.product(*[range(n) for n in extents]):
        for iv, at, start in zip(r.axis, point, first, strict=True):
            evaluate.env[iv.var] = np.asarray(at + start).astype(iv.var.dtype)
        condition = np.broadcast_to(evaluate(r.condition, live), shape)
        evaluate.env.update(zip(combiner.lhs, values, strict=True))
        evaluate.env.update({v: evaluate(e, condition) for v, e in zip(combiner.rhs, r.source, strict=True)})
        values = [
            np.where(condition, evaluate(e, condition), old) for e, old in zip(combiner.result, values, strict=True)
        ]
    return [np.asarray(values[e.value_index]) for e in op.body]


def _scan(op: ScanOp, tensors: Mapping[te.Tensor, Array], sizes: dict[tir.Var, Array]) -> list[Array]:
    """A recurrence, one step more right each time that it is computed as a whole."""
    shape = tuple([int(_Evaluator({}, dict(sizes))(n, np.True_)) for n in op.output(0).shape])
    state = np.zeros(shape, numpy_dtype(op.output(0).dtype))
    (update,) = op.update
    first = tensors[op.init[0]]
    for _ in range(shape[0]):
        state[: len(first)] = first
        inner: dict[te.Tensor, Array] = {**tensors, op.state_placeholder[0]: state}
        new = _compute(update.op, inner, sizes, len(first))[0]
        state = new.copy()
        state[: len(first)] = first
    return [state]


def evaluate(
    outputs: Sequence[te.Tensor],
    inputs: Mapping[te.Tensor, Array],
    sizes: Mapping[tir.Var, int],
    externs: Mapping[Any, Callable[..., Array]] | None = None,
) -> list[Array]:
    """The arrays of `outputs`, given those of the placeholders and the values of symbolic sizes.

    `externs` tells what extern operations compute, from the arrays of their inputs.
    """
    known = {v: np.asarray(n).astype(v.dtype) for v, n in sizes.items()}
    tensors: dict[te.Tensor, Array] = dict(inputs)
    with np.errstate(all="ignore"):
        for op in post_order([t.op for t in outputs]):
            if isinstance(op, PlaceholderOp):
                continue
            if externs and op in externs:
                tensors[op.output(0)] = externs[op](*[tensors[t] for t in op.input_tensors])
                continue
            if isinstance(op, ScanOp):
                tensors.update(zip(op.outputs, _scan(op, tensors, known), strict=True))
                continue
            assert isinstance(op, ComputeOp), f"the reference computes no {type(op).__name__}"
            if not any([t not in tensors for t in op.input_tensors]):
                tensors.update(zip(op.outputs, _compute(op, tensors, known), strict=True))
    return [tensors[t] for t in outputs]
