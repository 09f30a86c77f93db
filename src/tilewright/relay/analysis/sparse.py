"""Selection of weights that are worth storing as sparse matrices, and their conversion: `sparse_dense` and `sparse_conv2d`."""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import Op
from tilewright.relay.expr import Call, Expr, Var
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution import conv
from tilewright.relay.rewriting import card_of, tensor_of
from tilewright.support.errors import TVMError

Array = np.ndarray
Weights = MutableMapping[str, Any]
"""Weights by name; analyses and passes replace some by others."""


class SparseAnalysisResult(NamedTuple):
    """Names of weights, and for each the shapes of its sparse form: the data's, then the numbers of indices and of row starts."""

    weight_name: list[str]
    weight_shape: list[list[int]]


class Bsr(NamedTuple):
    """A matrix by the blocks of it that are not zero: `data` (blocks, rows of a block, columns), their columns, where rows begin."""

    data: Array
    indices: Array
    indptr: Array

    @property
    def shapes(self) -> list[int]:
        """As passes are told of them."""
        return [*self.data.shape, len(self.indices), len(self.indptr)]


def to_bsr(matrix: Array, block: tuple[int, int]) -> Bsr:
    """A matrix in block sparse row form. Raises TVMError if its shape is not a multiple of the block's."""
    rows, columns = matrix.shape
    r, c = block
    if rows % r or columns % c:
        raise TVMError(f"a matrix of {rows} x {columns} cannot be cut into blocks of {r} x {c}")
    blocks = matrix.reshape(rows // r, r, columns // c, c).transpose(0, 2, 1, 3)
    used = blocks.any(axis=(2, 3))
    places = np.nonzero(used)
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return Bsr(np.ascontiguousarray(blocks[places]), places[1].astype("int32"), indptr.astype("int32"))


def sparsity(matrix: Array) -> float:
    """The share of zeros."""
    return 1.0 - float(np.count_nonzero(matrix)) / matrix.size if matrix.size else 0.0


def worth(matrix: Array, block: tuple[int, int], threshold: float) -> bool:
    """Whether at least that share of a matrix is zeros, and it can be cut into blocks."""
    return not (matrix.shape[0] % block[0] or matrix.shape[1] % block[1]) and sparsity(matrix) >= threshold


def weight_matrix(weight: Array, layout: str) -> Array:
    """The weights of a convolution with one kernel element, as a matrix (outputs, inputs)."""
    return weight[0, 0].T if layout == "NHWC" else weight[:, :, 0, 0]


def _weights(expr: Expr, op: str, wanted: Callable[[Call], bool]) -> list[str]:
    names: dict[str, None] = {}
    for e in post_order(expr):
        if isinstance(e, Call) and type(e.op) is Op and e.op.name == op and isinstance(e.args[1], Var) and wanted(e):
            names[e.args[1].name_hint] = None
    return list(names)


def _processed(
    names: list[str],
    params: Weights,
    block: tuple[int, int],
    threshold: float,
    matrix: Callable[[Array], Array],
) -> SparseAnalysisResult:
    from tilewright.runtime import array

    found = SparseAnalysisResult([], [])
    for name in names:
        value = params.get(name)
        if value is None:
            continue
        dense = matrix(np.asarray(value.numpy() if hasattr(value, "numpy") else value))
        if not worth(dense, block, threshold):
            continue
        sparse = to_bsr(dense, block)
        del params[name]
        for part, values in zip(Bsr._fields, sparse, strict=True):
            params[f"{name}.{part}"] = array(values)
        found.weight_name.append(name)
        found.weight_shape.append(sparse.shapes)
    return found


def dense_weights(expr: Expr, filter_func: Callable[[Call], bool] | None = None) -> list[str]:
    """The names of the variables that are weights of nn.dense."""
    return _weights(expr, "nn.dense", filter_func or (lambda call: True))


def conv2d_weights(expr: Expr, layout: str) -> list[str]:
    """The names of the variables that are weights of such convolutions in a layout, as nn.sparse_conv2d can take the place of."""
    return _weights(
        expr, "nn.conv2d", lambda call: card_of(call, conv.conv2d).data_layout == layout and is_pointwise(call)
    )


def process_dense_params(
    expr: Expr,
    params: Weights,
    block_size: tuple[int, int],
    sparsity_threshold: float,
    filter_func: Callable[[Call], bool] | None = None,
) -> SparseAnalysisResult:
    """The weights of nn.dense in `params` of which at least `sparsity_threshold` (0 to 1) is zeros -> in `params` as NAME.data,
    NAME.indices, NAME.indptr (blocks of `block_size`). What `transform.DenseToSparse` takes. `filter_func(call)` leaves calls out."""
    names = dense_weights(expr, filter_func)
    return _processed(names, params, (int(block_size[0]), int(block_size[1])), sparsity_threshold, lambda w: w)


def process_conv2d_params(
    expr: Expr,
    params: Weights,
    block_size: tuple[int, int],
    sparsity_threshold: float,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> SparseAnalysisResult:
    """The same of nn.conv2d with kernels of one element in that layout, for `transform.Conv2dToSparse`."""
    check_kernel(kernel_size)
    names = conv2d_weights(expr, layout)
    block = (int(block_size[0]), int(block_size[1]))
    return _processed(names, params, block, sparsity_threshold, lambda w: weight_matrix(w, layout))


def check_kernel(kernel_size: int) -> None:
    """Raises TVMError for kernels of more than one element, which nn.sparse_conv2d does not take."""
    if kernel_size != 1:
        raise TVMError(
            f"sparse convolutions have kernels of one element, but the kernel size {kernel_size} was asked for"
        )


def is_pointwise(call: Call) -> bool:
    """Whether a convolution is a product over channels: one kernel element, no stride, padding or groups."""
    attrs = card_of(call, conv.conv2d)
    shape = tensor_of(call.args[1]).concrete_shape
    kernel = [n for n, c in zip(shape, attrs.kernel_layout, strict=True) if c in "HW"]
    plain = {"NHWC": "HWIO", "NCHW": "OIHW"}.get(attrs.data_layout) == attrs.kernel_layout
    steps = {*attrs.strides, *attrs.dilation}
    return (
        plain
        and kernel == [1, 1]
        and steps == {1}
        and not any(attrs.padding)
        and attrs.groups == 1
        and not attrs.out_layout
    )


def _module(name: str, process_params: Callable[..., Any]) -> ModuleType:
    module = sys.modules[f"tilewright.relay.analysis.{name}"] = ModuleType(f"tilewright.relay.analysis.{name}")
    vars(module).update(process_params=process_params, SparseAnalysisResult=SparseAnalysisResult)
    return module


sparse_dense = _module("sparse_dense", process_dense_params)
sparse_conv2d = _module("sparse_conv2d", process_conv2d_params)
