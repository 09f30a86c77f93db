"""Models with sparse weights, for tests and measurements: random weights that are mostly zeros, and what computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.analysis.sparse import Weights, conv2d_weights, dense_weights, weight_matrix
from tilewright.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose
from tilewright.relay.expr import Function
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import array
from tilewright.topi.sparse import random_bsr_matrix


def random_sparse_dense_params(func: Function, params: Weights, bs_r: int, bs_c: int, density: float) -> dict[str, Any]:
    """The parameters with random weights for nn.dense: blocks bs_r by bs_c of which the share `density` is not zero, where a weight can be
    cut into them."""
    return _random(dense_weights(func), params, (bs_r, bs_c), density, None)


def random_sparse_conv2d_params(
    func: Function, params: Weights, bs_r: int, bs_c: int, density: float, layout: str
) -> dict[str, Any]:
    """The same for nn.conv2d with kernels of one element in a layout, NHWC or NCHW; blocks are bs_r outputs by bs_c inputs."""
    return _random(conv2d_weights(_typed(func), layout), params, (bs_r, bs_c), density, layout)


def _typed(func: Function) -> Function:
    typed: Function = infer_module(IRModule.from_expr(func))["main"]
    return typed


def _random(
    names: list[str], params: Weights, block: tuple[int, int], density: float, layout: str | None
) -> dict[str, Any]:
    found = dict(params)
    for name in [n for n in names if n in params]:
        value = params[name]
        old = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        matrix = old if layout is None else weight_matrix(old, layout)
        rows, columns = matrix.shape
        if rows % block[0] or columns % block[1]:
            continue
        new = random_bsr_matrix(rows, columns, *block, density, str(old.dtype)).toarray()
        found[name] = array(np.ascontiguousarray(new.T if layout == "NHWC" else new).reshape(old.shape))
    return found


def convert_model_dense_to_sparse(
    mod: IRModule,
    params: Weights,
    random_params: bool = False,
    bs_r: int = 1,
    bs_c: int = 1,
    sparsity: float = 0.85,
    layout: str = "NHWC",
) -> tuple[IRModule, Weights]:
    """A model with those weights of nn.dense, and of nn.conv2d with one kernel element, as blocks bs_r by bs_c of which at least four
    fifths are zeros. random_params: the weights are replaced by random ones of which the share `sparsity` is zeros, for measurements."""
    func, found = simplify_fc_transpose.convert(mod["main"], dict(params))
    if random_params:
        found = random_sparse_dense_params(func, found, bs_r, bs_c, 1 - sparsity)
        found = random_sparse_conv2d_params(func, found, bs_r, bs_c, 1 - sparsity, layout)
    func, found = bsr_dense.convert(func, found, (bs_r, bs_c), 0.8)
    func, found = bsr_conv2d.convert(func, found, (bs_r, bs_c), 0.8, layout)
    return IRModule.from_expr(func), found


__all__ = ["convert_model_dense_to_sparse", "random_sparse_conv2d_params", "random_sparse_dense_params"]
