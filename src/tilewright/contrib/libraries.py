"""Products of matrices and convolutions that classic programs hand to libraries, as external tensor operations under the libraries' names.

NumPy computes them, with the BLAS of its package, whatever the name: there are no calls of MKL, DNNL, cuBLAS or hipBLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te
from tilewright.runtime import register_func
from tilewright.tir import call_packed


def extern_product(
    name: str, shape: tuple[Any, ...], lhs: Any, rhs: Any, transa: bool, transb: bool, **kwargs: Any
) -> Any:
    """A tensor of `shape` that the packed function `name` computes from two operands, each of which is transposed on request."""

    def call(ins: Any, outs: Any) -> Any:
        return call_packed(name, ins[0], ins[1], outs[0], transa, transb)

    return te.extern(shape, [lhs, rhs], call, name="C", **kwargs)


def matmul_by(library: str, function: str = "matmul") -> Callable[..., Any]:
    """The product [M, N] of [M, K] and [K, N] by a library; transposed operands are [K, M] and [N, K]."""
    name = f"tvm.contrib.{library}.{function}"
    register_func(name, product, override=True)

    def matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
        m = lhs.shape[1] if transa else lhs.shape[0]
        n = rhs.shape[0] if transb else rhs.shape[1]
        return extern_product(name, (m, n), lhs, rhs, transa, transb, **kwargs)

    matmul.__doc__ = matmul_by.__doc__
    return matmul


def batch_matmul_by(library: str) -> Callable[..., Any]:
    """As `matmul_by`, over a first axis that both operands have; one of them may have a single batch."""
    names = [f"tvm.contrib.{library}.batch_matmul{end}" for end in ("", "_iterative")]
    for name in names:
        register_func(name, product, override=True)

    def batch_matmul(
        lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, iterative: bool = False, **kwargs: Any
    ) -> Any:
        single = getattr(lhs.shape[0], "value", lhs.shape[0]) == 1
        m = lhs.shape[2] if transa else lhs.shape[1]
        n = rhs.shape[1] if transb else rhs.shape[2]
        shape = rhs.shape[0] if single else lhs.shape[0], m, n
        return extern_product(names[bool(iterative)], shape, lhs, rhs, transa, transb, **kwargs)

    batch_matmul.__doc__ = batch_matmul_by.__doc__
    return batch_matmul


def product(lhs: Any, rhs: Any, out: Any, transa: bool, transb: bool, *_: Any) -> None:
    """Writes the product of two arrays; integers are added up in the type of the result."""
    a, b = lhs.numpy(), rhs.numpy()
    a, b = (a.swapaxes(-1, -2) if transa else a), (b.swapaxes(-1, -2) if transb else b)
    if a.dtype.kind in "iu":
        a, b = a.astype(out.dtype), b.astype(out.dtype)
    out.copyfrom(np.matmul(a, b))
