"""Dense layers by weights that are mostly zeros."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis.sparse import Weights, process_dense_params
from tilewright.relay.expr import Call, Function


def convert(
    func: Function,
    params: Weights,
    blocksize: tuple[int, int],
    sparsity_threshold: float,
    filter_func: Callable[[Call], bool] | None = None,
) -> tuple[Function, Weights]:
    """The function and the parameters with those weights of nn.dense as blocks of `blocksize` of which at least `sparsity_threshold`
    (0 to 1) is zeros. `params` is changed."""
    found = process_dense_params(func, params, blocksize, sparsity_threshold, filter_func)
    new: Function = transform.DenseToSparse(found.weight_name, found.weight_shape)(IRModule.from_expr(func))["main"]
    return new, params
