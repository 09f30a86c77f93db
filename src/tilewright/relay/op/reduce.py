"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.op.card import COMM_REDUCE, OpCard, Sample
from tilewright.relay.op.relations import dims, normal_axis, tensor, tensor_type

CASES: tuple[Sample, ...] = (
    (((2, 3, 4),), {"axis": 1}),
    (((2, 3, 4),), {"axis": (0, 2), "keepdims": True}),
    (((2, 5),), {}),
    (((2, 3, 4),), {"axis": (1,), "exclude": True}),
)
BOOLS: tuple[Sample, ...] = (((((2, 30), "bool"),), {"axis": 1}),)


class Reduction(OpCard):
    """Along `axis` (an int, several, or None for all; all others when `exclude`)."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False
    fuse = COMM_REDUCE
    schedule = "reduce"
    samples = CASES
    result_dtype: ClassVar[str | None] = None
    te_form: ClassVar[Callable[..., Any]]
    np_form: ClassVar[Callable[..., Any]]

    def axes(self, ndim: int) -> list[int]:
        """The reduced axes, counted from the front."""
        if self.axis is None:
            return [] if self.exclude else list(range(ndim))
        given = sorted({normal_axis(a, ndim) for a in self.axis})
        return [a for a in range(ndim) if a not in given] if self.exclude else given

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        axes = self.axes(len(t.shape))
        shape = [1 if i in axes else d for i, d in enumerate(dims(t)) if self.keepdims or i not in axes]
        return tensor_type(tuple(shape), self.result_dtype or t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        result: te.Tensor = type(self).te_form(data, self.axes(len(data.shape)), self.keepdims)
        return result

    def ref(self, data: np.ndarray) -> np.ndarray:
        result = type(self).np_form(data, axis=tuple(self.axes(data.ndim)), keepdims=self.keepdims)
        return np.asarray(result).astype(self.result_dtype or data.dtype, copy=False)


def _reduction(
    key: str,
    te_form: Callable[..., Any],
    np_form: Callable[..., Any],
    doc: str,
    cases: tuple[Sample, ...] = CASES,
    dtype: str | None = None,
) -> type[Reduction]:
    class card(Reduction, key=key):
        samples = cases
        result_dtype = dtype

    card.te_form, card.np_form = te_form, np_form
    card.__name__ = card.__qualname__ = key
    card.__doc__ = doc
    return card


sum_ = _reduction("sum", topi.sum, np.sum, "Sum along `axis`.")
mean = _reduction("mean", topi.mean, np.mean, "Arithmetic mean along `axis`.")
max_ = _reduction("max", topi.max, np.max, "Largest along `axis`.")
min_ = _reduction("min", topi.min, np.min, "Smallest along `axis`.")
prod = _reduction("prod", topi.prod, np.prod, "Product along `axis`.")
all_ = _reduction("all", topi.all, np.all, "Whether all along `axis` hold (bool).", BOOLS, "bool")
any_ = _reduction("any", topi.any, np.any, "Whether any along `axis` holds (bool).", BOOLS, "bool")


class variance(Reduction, key="variance"):
    """Mean squared distance of data from `mean` (computed with keepdims) along `axis`; over n - 1 when `unbiased`."""

    unbiased: bool = False
    samples = ((((2, 3, 4), (2, 1, 4)), {"axis": 1}), (((2, 5), (1, 1)), {"keepdims": True, "unbiased": True}))

    def infer(self, data: TensorType, mean: TensorType) -> Type:  # type: ignore[override]
        tensor(mean, 1)
        return super().infer(data)

    def compute(self, data: te.Tensor, mean: te.Tensor) -> te.Tensor:  # type: ignore[override]
        return topi.variance(data, mean, self.axes(len(data.shape)), self.keepdims, False, self.unbiased)

    def ref(self, data: np.ndarray, mean: np.ndarray) -> np.ndarray:  # type: ignore[override]
        axes = tuple(self.axes(data.ndim))
        total = np.sum((data - mean) ** 2, axis=axes, keepdims=self.keepdims)
        count = int(np.prod([data.shape[a] for a in axes])) - self.unbiased
        return np.asarray(total / data.dtype.type(count))


class ArgReduction(OpCard):
    """Position of the best along `axis` (int32); of equals the first, or the last with `select_last_index`."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False
    select_last_index: bool = False
    fuse = COMM_REDUCE
    schedule = "reduce"
    samples = [
        (((2, 3, 4),), {"axis": 1}),
        (((3, 7),), {"axis": -1, "keepdims": True}),
        ((np.array([[1, 3, 3], [2, 2, 0]], np.float32),), {"axis": 1, "select_last_index": True}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        axes = Reduction.axes(self, len(t.shape))  # type: ignore[arg-type]
        return tensor_type(
            tuple([1 if i in axes else d for i, d in enumerate(dims(t)) if self.keepdims or i not in axes]), "int32"
        )

    def _ref(self, data: np.ndarray, best: Callable[..., Any]) -> np.ndarray:
        axes = Reduction.axes(self, data.ndim)  # type: ignore[arg-type]
        rest = [a for a in range(data.ndim) if a not in axes]
        moved = data.transpose(rest + axes).reshape([data.shape[a] for a in rest] + [-1])
        if self.select_last_index:
            found = moved.shape[-1] - 1 - best(moved[..., ::-1], axis=-1)
        else:
            found = best(moved, axis=-1)
        shape = [1 if i in axes else d for i, d in enumerate(data.shape) if self.keepdims or i not in axes]
        return np.asarray(found).astype(np.int32).reshape(shape)


class argmax(ArgReduction, key="argmax"):
    """Position of the largest along `axis`, as int32."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argmax(data, self.axis, self.keepdims, self.select_last_index, self.exclude)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.argmax)


class argmin(ArgReduction, key="argmin"):
    """Position of the smallest along `axis`, as int32."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argmin(data, self.axis, self.keepdims, self.select_last_index, self.exclude)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.argmin)
