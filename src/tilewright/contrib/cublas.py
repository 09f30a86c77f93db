"""Matrix products under the names of cuBLAS (`contrib.libraries`)."""

from __future__ import annotations

from typing import Any

from tilewright.contrib.libraries import batch_matmul_by, matmul_by

_matmul, _batch_matmul = matmul_by("cublas"), batch_matmul_by("cublas")


def matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, dtype: str | None = None) -> Any:
    """The product [M, N] of [M, K] and [K, N], of type `dtype` (that of lhs if None); transposed operands are [K, M] and [N, K]."""
    return _matmul(lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)


def batch_matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, dtype: str | None = None) -> Any:
    """As `matmul`, over a first axis that both operands have; one of them may have a single batch."""
    return _batch_matmul(lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)
