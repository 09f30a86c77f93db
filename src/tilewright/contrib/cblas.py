"""Matrix products by the BLAS of NumPy's package, as external tensor operations with their classic names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import te
from tilewright.runtime import register_func
from tilewright.tir import call_packed


def matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """A tensor [M, N], the product of [M, K] and [K, N]; transposed operands are given as [K, M] and [N, K]."""
    m = lhs.shape[1] if transa else lhs.shape[0]
    n = rhs.shape[0] if transb else rhs.shape[1]

    def call(ins: Any, outs: Any) -> Any:
        return call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], transa, transb)

    return te.extern((m, n), [lhs, rhs], call, name="C", **kwargs)


def batch_matmul(
    lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, iterative: bool = False, **kwargs: Any
) -> Any:
    """As `matmul`, over a first axis that both operands have; one of them may have a single batch."""
    batch = lhs.shape[0] if not _is_one(lhs.shape[0]) else rhs.shape[0]
    m = lhs.shape[2] if transa else lhs.shape[1]
    n = rhs.shape[1] if transb else rhs.shape[2]
    name = "tvm.contrib.cblas.batch_matmul" + ("_iterative" if iterative else "")

    def call(ins: Any, outs: Any) -> Any:
        return call_packed(name, ins[0], ins[1], outs[0], transa, transb)

    return te.extern((batch, m, n), [lhs, rhs], call, name="C", **kwargs)


def _is_one(extent: Any) -> bool:
    return bool(getattr(extent, "value", extent) == 1)


def _product(lhs: Any, rhs: Any, out: Any, transa: bool, transb: bool) -> None:
    a, b = lhs.numpy(), rhs.numpy()
    a, b = (a.swapaxes(-1, -2) if transa else a), (b.swapaxes(-1, -2) if transb else b)
    out.copyfrom(np.matmul(a, b))


for _name in ("matmul", "batch_matmul", "batch_matmul_iterative"):
    register_func(f"tvm.contrib.cblas.{_name}", _product, override=True)
