"""Convolutions with kernels of one element by weights that are mostly zeros."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis.sparse import Weights, process_conv2d_params
from tilewright.relay.expr import Function
from tilewright.relay.parameters import bind
from tilewright.relay.typing.infer_type import infer_module


def convert(
    func: Function,
    params: Weights,
    blocksize: tuple[int, int],
    sparsity_threshold: float,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> tuple[Function, Weights]:
    """The function and the parameters with the weights of such convolutions as blocks of `blocksize`, where at least
    `sparsity_threshold` (0 to 1) is zeros. `params` is changed."""
    typed: Function = infer_module(IRModule.from_expr(func))["main"]
    found = process_conv2d_params(typed, params, blocksize, sparsity_threshold, layout, kernel_size)
    made = transform.Conv2dToSparse(found.weight_name, found.weight_shape, layout, kernel_size)
    new: Function = made(IRModule.from_expr(typed))["main"]
    return new, params


def convert2(
    func: Function,
    params: Weights,
    layout: str,
    kernel_size: int,
    blocksize: tuple[int, int],
    sparsity_threshold: float,
) -> tuple[Function, Weights]:
    """The function with its parameters fixed, and such convolutions by constant blocks; there are no parameters left."""
    fixed = bind(func, params)
    made = transform.Conv2dToSparse2(layout, kernel_size, blocksize, sparsity_threshold)
    new: Function = made(transform.FoldConstant()(IRModule.from_expr(fixed)))["main"]
    return new, {}
