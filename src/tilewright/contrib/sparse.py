"""Sparse matrices by rows (CSR): arrays, and placeholders of tensor programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.runtime import cpu
from tilewright.runtime import ndarray as nd

float32, itype = "float32", "int32"
"""The types of values and of indices, by default."""


class CSRNDArray:
    """A matrix by rows: values `data`, the column of each in `indices`, and in `indptr` where each row begins.

    arg1: a NumPy matrix, or (data, indices, indptr), for which `shape` is needed.
    """

    def __init__(self, arg1: Any, device: Any = None, shape: Sequence[int] | None = None) -> None:
        where = device or cpu(0)
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise ValueError("CSRNDArray: a matrix by parts is (data, indices, indptr), and its shape")
            self.data, self.indices, self.indptr = (
                a if isinstance(a, nd.NDArray) else nd.array(np.asarray(a), where) for a in arg1
            )
            self.shape = tuple(shape)
        else:
            matrix = np.asarray(arg1)
            if matrix.ndim != 2:
                raise ValueError(f"CSRNDArray: a matrix has two axes, but the array has {matrix.ndim}")
            rows, columns = np.nonzero(matrix)
            begins = np.searchsorted(rows, np.arange(matrix.shape[0] + 1)).astype(itype)
            self.data = nd.array(matrix[rows, columns], where)
            self.indices, self.indptr = nd.array(columns.astype(itype), where), nd.array(begins, where)
            self.shape = matrix.shape
        self.dtype, self.stype = self.data.dtype, "csr"

    def numpy(self) -> np.ndarray[Any, Any]:
        """The matrix, with its zeros."""
        full = np.zeros(self.shape, self.dtype)
        begins, columns, values = self.indptr.numpy(), self.indices.numpy(), self.data.numpy()
        for row in range(self.shape[0]):
            span = slice(begins[row], begins[row + 1])
            full[row, columns[span]] = values[span]
        return full

    asnumpy = numpy


def array(source_array: Any, device: Any = None, shape: Sequence[int] | None = None, stype: str = "csr") -> CSRNDArray:
    """A sparse array of a NumPy matrix, or of (data, indices, indptr)."""
    _known(stype)
    return CSRNDArray(source_array, device, shape)


def _known(stype: str) -> None:
    if stype != "csr":
        raise NotImplementedError(f"there are sparse matrices by rows (csr), but the form is {stype!r}")


class SparsePlaceholderOp:
    """A sparse input of a tensor program."""

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        self.shape, self.dtype, self.name, self.stype = tuple(shape), dtype, name, "unknown"
        del nonzeros


class CSRPlaceholderOp(SparsePlaceholderOp):
    """A sparse input by rows: placeholders `data` and `indices` of `nonzeros` elements, and `indptr`."""

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        super().__init__(shape, nonzeros, dtype, name)
        self.stype = "csr"
        self.data = te.placeholder((nonzeros,), dtype=dtype, name=f"{name}_data")
        self.indices = te.placeholder((nonzeros,), dtype=itype, name=f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), dtype=itype, name=f"{name}_indptr")


def placeholder(
    shape: Sequence[Any], nonzeros: Any = None, dtype: str | None = None, name: str = "placeholder", stype: str = "csr"
) -> CSRPlaceholderOp:
    """A sparse input of a tensor program. nonzeros: how many values it has; unknown if None."""
    _known(stype)
    count = te.size_var(f"{name}_nonzeros") if nonzeros is None else nonzeros
    return CSRPlaceholderOp([shape] if isinstance(shape, int) else shape, count, dtype or float32, name)
