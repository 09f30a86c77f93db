"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import numpy as np

from tilewright import te, tir, topi
from tilewright.ir import PrimExpr, TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import COMM_REDUCE, Made, OpCard, Operand, Sample, of_topi
from tilewright.relay.cards.relations import Dim, dims, normal_axis, tensor, tensor_type
from tilewright.relay.expr import Expr, Tuple, TupleWrapper
from tilewright.relay.op.adjoint import derived, op

CASES: tuple[Sample, ...] = (
    (((2, 3, 4),), {"axis": 1}),
    (((2, 3, 4),), {"axis": (0, 2), "keepdims": True}),
    (((2, 5),), {}),
    (((2, 3, 4),), {"axis": (1,), "exclude": True}),
)
BOOLS: tuple[Sample, ...] = (((((2, 30), "bool"),), {"axis": 1}),)


D = TypeVar("D", bound=Dim)


class OverAxes(OpCard):
    """Base of operators that reduce `axis`: an int, several, or None for all. exclude: all other axes instead."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False
    fuse = COMM_REDUCE

    def axes(self, ndim: int) -> list[int]:
        """The reduced axes, counted from the front."""
        if self.axis is None:
            return [] if self.exclude else list(range(ndim))
        given = sorted({normal_axis(a, ndim) for a in self.axis})
        return [a for a in range(ndim) if a not in given] if self.exclude else given

    def reduced(self, shape: Sequence[D]) -> list[D | int]:
        """The shape of the result, from that of data."""
        axes = self.axes(len(shape))
        return [1 if i in axes else d for i, d in enumerate(shape) if self.keepdims or i not in axes]

    def kept(self, value: Expr, data: Expr) -> Expr:
        """A result, or its adjoint, with extent 1 for each reduced axis."""
        if not self.keepdims:
            for a in self.axes(len(tensor(data.checked_type).shape)):
                value = op("expand_dims")(value, axis=a)
        return value


class Reduction(OverAxes):
    """Base of reductions by one function."""

    samples = CASES
    result_dtype: ClassVar[str | None] = None
    computed_by: ClassVar[str]
    np_form: ClassVar[Callable[..., np.ndarray]]
    slope: ClassVar[Callable[[Reduction, Expr, Expr, Expr], Expr] | None] = None
    """The adjoint of data, from the card, data, and the result and its adjoint with the reduced axes kept."""

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        return tensor_type(self.reduced(dims(t)), self.result_dtype or t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        result: te.Tensor = of_topi(self.computed_by)(data, self.axes(len(data.shape)), self.keepdims)
        return result

    def ref(self, data: np.ndarray) -> np.ndarray:
        result = type(self).np_form(data, axis=tuple(self.axes(data.ndim)), keepdims=self.keepdims)
        return np.asarray(result).astype(self.result_dtype or data.dtype, copy=False)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        slope = type(self).slope
        assert slope is not None
        return [slope(self, data, self.kept(result, data), self.kept(dy, data))]


def _reduction(
    key: str,
    np_form: Callable[..., np.ndarray],
    doc: str,
    cases: tuple[Sample, ...] = CASES,
    dtype: str | None = None,
    slope: Callable[[Reduction, Expr, Expr, Expr], Expr] | None = None,
) -> type[Reduction]:
    class card(Reduction, key=key):
        samples = cases
        result_dtype = dtype
        flat = slope is None

    card.computed_by, card.np_form, card.slope = key, np_form, slope
    card.__name__ = card.__qualname__ = key
    card.__doc__ = doc
    return card


def _spread(dy: Expr, data: Expr) -> Expr:
    return op("broadcast_to_like")(dy, data)


def _share(card: Reduction, data: Expr, y: Expr, dy: Expr) -> Expr:
    """The adjoint of a mean: each element's share."""
    count = op("ndarray_size")(data, dtype="float32") / op("ndarray_size")(y, dtype="float32")
    return op("divide")(_spread(dy, data), op("cast")(count, str(tensor(data.checked_type).dtype)))


def _to_best(card: Reduction, data: Expr, y: Expr, dy: Expr) -> Expr:
    """The adjoint of an extreme: it is divided equally among the elements that reach it."""
    hit = op("cast")(op("equal")(data, y), str(tensor(data.checked_type).dtype))
    return hit * dy / op("sum")(hit, axis=card.axis, keepdims=True, exclude=card.exclude)


sum_ = _reduction("sum", np.sum, "Sum along `axis`.", slope=lambda card, data, y, dy: _spread(dy, data))
mean = _reduction("mean", np.mean, "Arithmetic mean along `axis`.", slope=_share)
max_ = _reduction("max", np.max, "Largest along `axis`.", slope=_to_best)
min_ = _reduction("min", np.min, "Smallest along `axis`.", slope=_to_best)
prod = _reduction(
    "prod", np.prod, "Product along `axis`.", slope=lambda card, data, y, dy: op("divide")(op("multiply")(dy, y), data)
)
all_ = _reduction("all", np.all, "Whether all along `axis` hold (bool).", BOOLS, "bool")
any_ = _reduction("any", np.any, "Whether any along `axis` holds (bool).", BOOLS, "bool")


def _real(data: np.ndarray) -> np.ndarray:
    """data, integers as float64."""
    return data.astype(np.float64) if data.dtype.kind in "iub" else data


def _finite(v: PrimExpr) -> PrimExpr:
    """v, or 0 if it is infinite."""
    return tir.Select(tir.isinf(v), tir.const(0, v.dtype), v)


class variance(OverAxes, key="variance"):
    """The mean squared distance of data from `mean` (computed with keepdims) along `axis`. unbiased: divided by n - 1."""

    unbiased: bool = False
    samples = ((((2, 3, 4), (2, 1, 4)), {"axis": 1}), (((2, 5), (1, 1)), {"keepdims": True, "unbiased": True}))

    @classmethod
    def make(
        cls,
        data: Operand,
        axis: Operand | None = None,
        keepdims: bool = False,
        exclude: bool = False,
        unbiased: bool = False,
        with_mean: Operand | None = None,
        span: BaseSpan | None = None,
    ) -> Made:
        """with_mean: the mean, with reduced axes kept; computed if None."""
        centre = with_mean if with_mean is not None else op("mean")(data, axis, True, exclude)
        attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
        return cls.call([data, centre], attrs, span)

    def infer(self, data: TensorType, mean: TensorType) -> Type:
        tensor(mean, 1)
        t = tensor(data, 0)
        return tensor_type(self.reduced(dims(t)), t.dtype)

    def compute(self, data: te.Tensor, mean: te.Tensor) -> te.Tensor:
        return topi.variance(data, mean, self.axes(len(data.shape)), self.keepdims, False, self.unbiased)

    def ref(self, data: np.ndarray, mean: np.ndarray) -> np.ndarray:
        axes = tuple(self.axes(data.ndim))
        total = np.sum((_real(data) - mean) ** 2, axis=axes, keepdims=self.keepdims)
        count = int(np.prod([data.shape[a] for a in axes])) - self.unbiased
        return np.asarray(total / total.dtype.type(count)).astype(data.dtype, copy=False)

    def grad(self, data: Expr, mean: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return derived(self, [data, mean], dy)


class std(Reduction, key="std"):
    """The standard deviation along `axis`. unbiased: divided by n - 1."""

    unbiased: bool = False
    samples = ((((2, 3, 4),), {"axis": 1}), (((2, 5),), {"keepdims": True, "unbiased": True}))

    def compute(self, data: te.Tensor) -> te.Tensor:
        axes = self.axes(len(data.shape))
        data = topi.math.reals(data)
        centre = topi.mean(data, axes, True)
        return topi.sqrt(topi.variance(data, centre, axes, self.keepdims, False, self.unbiased))

    def ref(self, data: np.ndarray) -> np.ndarray:
        found = np.std(data, axis=tuple(self.axes(data.ndim)), keepdims=self.keepdims, ddof=int(self.unbiased))
        return np.asarray(found).astype(data.dtype, copy=False)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        y, d = self.kept(result, data), self.kept(dy, data)
        centre = op("mean")(data, axis=self.axis, keepdims=True, exclude=self.exclude)
        count = op("ndarray_size")(data, dtype="float32") / op("ndarray_size")(y, dtype="float32")
        if self.unbiased:
            count = count - op("ones_like")(count)
        divisor = op("cast")(count, str(tensor(data.checked_type).dtype)) * y
        return [op("multiply")(d, op("subtract")(data, centre)) / divisor]


class logsumexp(Reduction, key="logsumexp"):
    """The logarithm of the sum of exponentials along `axis`, without overflow."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        axes = self.axes(len(data.shape))
        data = topi.math.reals(data)
        # The distance of infinity from itself is NaN, so it is left to the exponentials.
        largest = topi.math.elementwise(topi.max(data, axes, True), _finite, "T_largest")
        total = topi.log(topi.sum(topi.exp(data - largest), axes, True)) + largest
        return total if self.keepdims or not axes else topi.squeeze(total, axes)

    def ref(self, data: np.ndarray) -> np.ndarray:
        axes = tuple(self.axes(data.ndim))
        x = _real(data)
        largest = x.max(axes, keepdims=True)
        largest = np.where(np.isinf(largest), np.zeros_like(largest), largest)
        with np.errstate(divide="ignore", over="ignore"):
            total = np.log(np.exp(x - largest).sum(axes, keepdims=True)) + largest
        return np.asarray(total if self.keepdims else total.squeeze(axes)).astype(data.dtype, copy=False)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("multiply")(self.kept(dy, data), op("exp")(op("subtract")(data, self.kept(result, data))))]


def mean_variance(
    data: Expr,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> TupleWrapper:
    """(mean, variance) along `axis`."""
    centre = op("mean")(data, axis, True, exclude)
    spread = op("variance")(data, axis, keepdims, exclude, unbiased, with_mean=centre)
    return TupleWrapper(Tuple((centre if keepdims else op("mean")(data, axis, False, exclude), spread)), 2)


def mean_std(
    data: Expr,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> TupleWrapper:
    """(mean, standard deviation) along `axis`."""
    found = mean_variance(data, axis, keepdims, exclude, unbiased)
    return TupleWrapper(Tuple((found[0], op("sqrt")(found[1]))), 2)


class ArgReduction(OverAxes):
    """Base of argmax and argmin. Of equal elements the first counts, or with `select_last_index` the last."""

    select_last_index: bool = False
    flat = True
    samples = [
        (((2, 3, 4),), {"axis": 1}),
        (((3, 7),), {"axis": -1, "keepdims": True}),
        (((0, 7),), {"axis": 1}),
        ((np.array([[1, 3, 3], [2, 2, 0]], np.float32),), {"axis": 1, "select_last_index": True}),
    ]

    def infer(self, data: TensorType) -> Type:
        return tensor_type(self.reduced(dims(tensor(data, 0))), "int32")

    def _ref(self, data: np.ndarray, best: Callable[..., np.ndarray]) -> np.ndarray:
        axes = self.axes(data.ndim)
        rest = [a for a in range(data.ndim) if a not in axes]
        moved = data.transpose(rest + axes).reshape(
            [data.shape[a] for a in rest] + [math.prod([data.shape[a] for a in axes])]
        )
        if self.select_last_index:
            found = moved.shape[-1] - 1 - best(moved[..., ::-1], axis=-1)
        else:
            found = best(moved, axis=-1)
        return np.asarray(found).astype(np.int32).reshape(self.reduced(data.shape))


class argmax(ArgReduction, key="argmax"):
    """The position of the maximum along `axis`, as int32. Of equal elements the first, or with `select_last_index` the last."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argmax(data, self.axis, self.keepdims, self.select_last_index, self.exclude)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.argmax)


class argmin(ArgReduction, key="argmin"):
    """The position of the minimum along `axis`, as int32. Of equal elements the first, or with `select_last_index` the last."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argmin(data, self.axis, self.keepdims, self.select_last_index, self.exclude)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.argmin)
