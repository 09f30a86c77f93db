"""Matrix products under the name of cuBLASLt (`contrib.libraries`)."""

from __future__ import annotations

from typing import Any

from tilewright.contrib.libraries import extern_product, product
from tilewright.runtime import register_func

register_func("tvm.contrib.cublaslt.matmul", product, override=True)


def matmul(
    lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, n: Any = 0, m: Any = 0, dtype: str | None = None
) -> Any:
    """The product [M, N] of [M, K] and [K, N], of type `dtype` (that of lhs if None). n, m: the extents of the result, from the operands
    if 0."""
    rows = m or (lhs.shape[1] if transa else lhs.shape[0])
    columns = n or (rhs.shape[0] if transb else rhs.shape[1])
    name = "tvm.contrib.cublaslt.matmul"
    return extern_product(name, (rows, columns), lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)
