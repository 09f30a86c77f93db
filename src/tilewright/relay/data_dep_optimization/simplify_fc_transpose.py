"""Weights of dense layers that are transposed when the model runs, given transposed instead."""

from __future__ import annotations

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis.programs import search_fc_transpose
from tilewright.relay.analysis.sparse import Weights
from tilewright.relay.expr import Function
from tilewright.runtime import array


def convert(func: Function, params: Weights) -> tuple[Function, Weights]:
    """The function without the transposes of its weights, and the parameters NAME.T in the place of NAME. `params` is changed."""
    names = [n for n in search_fc_transpose(func) if n in params]
    new: Function = transform.SimplifyFCTranspose(names)(IRModule.from_expr(func))["main"]
    for name in names:
        value = params.pop(name)
        dense = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        params[f"{name}.T"] = array(np.ascontiguousarray(dense.T))
    return new, params
