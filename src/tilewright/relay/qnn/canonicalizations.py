"""Functions of one quantised number as tables of all numbers of its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.cards.card import constructor
from tilewright.relay.evaluation.constant_folding import folded
from tilewright.relay.expr import Constant, Expr, const
from tilewright.relay.rewriting import typed

Table = np.ndarray


def run_const_expr(expr: Expr) -> np.ndarray:
    """The value of an expression without variables. Raises ValueError for others."""
    found = folded(typed(expr))
    if not isinstance(found, Constant):
        raise ValueError(f"the expression has no constant value: {expr}")
    return np.asarray(found.value)


def create_integer_lookup_table(
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> Table:
    """The results of a function of real numbers for all integers of in_dtype, in the order of their bits without sign: element 255 of an
    int8 table is that of -1. Scales and zero points are constants."""
    bits = np.iinfo(in_dtype).bits
    if bits > 16:
        raise ValueError(f"a table has an element for each number of its type, so in_dtype cannot be {in_dtype}")
    numbers = const(np.arange(2**bits).astype(f"uint{bits}").view(in_dtype))
    real = run_const_expr(constructor("qnn.dequantize")(numbers, input_scale, input_zero_point, in_axis))
    made = const(np.asarray(floating_point_func(real), np.float32))
    return run_const_expr(constructor("qnn.quantize")(made, output_scale, output_zero_point, out_axis, out_dtype))


def create_integer_lookup_op(
    input_arg: Expr,
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    in_scale: Expr,
    in_zero_point: Expr,
    out_scale: Expr,
    out_zero_point: Expr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> Expr:
    """A function of real numbers on quantised ones, as a look-up in its table."""
    table = create_integer_lookup_table(
        floating_point_func, in_scale, in_zero_point, out_scale, out_zero_point, in_axis, out_axis, in_dtype, out_dtype
    )
    place: Any = constructor("reinterpret")(input_arg, f"uint{np.iinfo(in_dtype).bits}")
    return constructor("take")(const(table), place, axis=0, mode="fast")


__all__ = ["create_integer_lookup_op", "create_integer_lookup_table", "run_const_expr"]
