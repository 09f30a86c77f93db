"""Matrix products under the names of MKL (`contrib.libraries`)."""

from __future__ import annotations

from typing import Any

from tilewright.contrib.libraries import batch_matmul_by, matmul_by

matmul, batch_matmul = matmul_by("mkl"), batch_matmul_by("mkl")
_bytes = matmul_by("mkl", "matmul_u8s8s32")


def matmul_u8s8s32(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """The product [M, N] in int32 of uint8 [M, K] by int8 [K, N]; transposed operands are [K, M] and [N, K]."""
    return _bytes(lhs, rhs, transa, transb, **{"dtype": "int32", **kwargs})
