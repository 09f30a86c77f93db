"""Quantised products with weights in packed layouts."""

from __future__ import annotations

from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, ExprWithOp


def contrib_dense_pack(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    kernel_layout: str = "NC",
    units: int | None = None,
    out_dtype: str = "int32",
) -> ExprWithOp:
    """`qnn.dense` with a weight in a layout such as "NC16n4c". The weight is laid out plainly first: kernels pack weights themselves, in
    the layout of their instructions, and a constant weight costs nothing."""
    plain = weight if kernel_layout == "NC" else constructor("layout_transform")(weight, kernel_layout, "NC")
    points = (input_zero_point, kernel_zero_point, input_scale, kernel_scale)
    return constructor("qnn.dense")(data, plain, *points, units=units, out_dtype=out_dtype)
