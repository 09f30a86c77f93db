"""What becomes of quantised products on targets: hooks for programs, and the forms that such hooks return.

    @relay.qnn.op.legalizations.qnn_dense_legalize.register("cpu")
    def mine(attrs, inputs, types):
        return helper_change_dtypes_to_int8(attrs, inputs, types, relay.qnn.op.dense)

The pass `relay.qnn.transform.Legalize` calls what was registered for a key of the current target. Inputs are (data, weights, zero point of
the data, zero point of the weights, scale of the data, scale of the weights).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import DataType
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Constant, Expr, const
from tilewright.relay.op.quantization.quantized_products import vars_of
from tilewright.relay.op.registry import register_qnn_legalize
from tilewright.relay.op.target_rewrites import FUNCTIONS
from tilewright.relay.qnn.canonicalizations import create_integer_lookup_op
from tilewright.target import Target

Attrs = Any
Types = Sequence[Any]
qnn_conv2d_legalize, qnn_conv2d_transpose_legalize, qnn_dense_legalize = [
    FUNCTIONS[f"qnn_{name}_legalize"] for name in ("conv2d", "conv2d_transpose", "dense")
]
OUT_CHANNEL_VECTOR_LENGTH, IN_CHANNEL_VECTOR_LENGTH = 32, 4
"""Multiples of channels of blocked weights, for helper_align_up."""


def legalize_qnn_conv2d(attrs: Attrs, inputs: Sequence[Expr], types: Types) -> Expr | None:
    """What the hook of the current target makes of a convolution; None for nothing."""
    found: Expr | None = qnn_conv2d_legalize(attrs, inputs, types)
    return found


def legalize_qnn_conv2d_transpose(attrs: Attrs, inputs: Sequence[Expr], types: Types) -> Expr | None:
    """What the hook of the current target makes of the adjoint of a convolution; None for nothing."""
    found: Expr | None = qnn_conv2d_transpose_legalize(attrs, inputs, types)
    return found


def legalize_qnn_dense(attrs: Attrs, inputs: Sequence[Expr], types: Types) -> Expr | None:
    """What the hook of the current target makes of a dense layer; None for nothing."""
    found: Expr | None = qnn_dense_legalize(attrs, inputs, types)
    return found


def hardswish_func(x: np.ndarray) -> np.ndarray:
    """x * relu6(x + 3) / 6."""
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def register_qnn_unary_op_legalize(
    op_name: str, floating_point_func: Callable[[np.ndarray], np.ndarray]
) -> Callable[..., Expr | None]:
    """Legalizes an operator of (data, scale, zero point, scale of the result, its zero point) as a look-up in the table of a function of
    real numbers; calls whose scales and zero points are not constants stay."""

    def legalize(attrs: Attrs, inputs: Sequence[Expr], types: Types) -> Expr | None:
        del attrs
        data, scale, zero, out_scale, out_zero = inputs
        if not all([isinstance(n, Constant) for n in inputs[1:]]):
            return None
        kind = str(types[0].dtype)
        return create_integer_lookup_op(
            data, floating_point_func, scale, zero, out_scale, out_zero, in_dtype=kind, out_dtype=kind
        )

    register_qnn_legalize(op_name, legalize, 11)
    return legalize


def get_scalar_from_constant(expr: Expr) -> int | float:
    """The number that a constant of one element is. Raises ValueError for others."""
    if not isinstance(expr, Constant) or expr.value.size != 1:
        raise ValueError(f"a constant of one element is expected, not {expr}")
    found: int | float = expr.value.reshape(-1)[0].item()
    return found


def helper_align_up(value: int, aligner: int) -> int:
    """The next multiple of `aligner`."""
    return -(-value // aligner) * aligner


def is_fast_int8_on_intel() -> bool:
    """Whether the current target has instructions for products of bytes without sign by bytes with sign."""
    from tilewright.scheduling.instructions import dot_products

    target = Target.current(allow_none=True)
    return target is not None and "cpu" in target.keys and bool(dot_products(target, "uint8", "int8", "int32"))


def helper_no_fast_int8_hw_legalization(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr]
) -> Expr:
    """The product of 16-bit differences from the zero points by `relay_op`, an operator without quantisation such as nn.conv2d."""
    del types
    cast, subtract = constructor("cast"), constructor("subtract")
    data, kernel, data_zero, kernel_zero = inputs[:4]
    wide = [
        subtract(cast(value, "int16"), cast(zero, "int16"))
        for value, zero in ((data, data_zero), (kernel, kernel_zero))
    ]
    return relay_op(*wide, **vars_of(attrs))


def _moved(value: Expr, zero: Expr, given: str, wanted: str) -> tuple[Expr, Expr]:
    """A value and its zero point as bytes of another type, with or without sign: both are moved by 128."""
    if given == wanted:
        return value, zero
    by = 128 if wanted == "uint8" else -128
    cast, add = constructor("cast"), constructor("add")
    moved = cast(add(cast(value, "int32"), const(by)), wanted)
    return moved, add(zero, const(by))


def _with_types(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr], wanted: Sequence[str]
) -> Expr | None:
    """The product on bytes of these types; None if it has them, or if one of its operands is no byte."""
    given = [str(t.dtype) for t in types[:2]]
    if given == list(wanted) or any([DataType(t).bits != 8 for t in given]):
        return None
    data, kernel, data_zero, kernel_zero, *scales = inputs
    data, data_zero = _moved(data, data_zero, given[0], wanted[0])
    kernel, kernel_zero = _moved(kernel, kernel_zero, given[1], wanted[1])
    return relay_op(data, kernel, data_zero, kernel_zero, *scales, **vars_of(attrs))


def helper_change_dtypes_to_uint8_int8(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr]
) -> Expr | None:
    """The product of data as uint8 by weights as int8; None if they are that. relay_op: the quantised operator."""
    return _with_types(attrs, inputs, types, relay_op, ("uint8", "int8"))


def helper_change_dtypes_to_int8(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr]
) -> Expr | None:
    """The product of int8 by int8; None if they are that."""
    return _with_types(attrs, inputs, types, relay_op, ("int8", "int8"))


def helper_change_dtypes_to_uint8(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr]
) -> Expr | None:
    """The product of uint8 by uint8; None if they are that."""
    return _with_types(attrs, inputs, types, relay_op, ("uint8", "uint8"))


def helper_change_dtypes_to_be_same(
    attrs: Attrs, inputs: Sequence[Expr], types: Types, relay_op: Callable[..., Expr]
) -> Expr | None:
    """The product of data by weights in the type of the data; None if they have it."""
    return _with_types(attrs, inputs, types, relay_op, [str(types[0].dtype)] * 2)


__all__ = [
    "IN_CHANNEL_VECTOR_LENGTH",
    "OUT_CHANNEL_VECTOR_LENGTH",
    "get_scalar_from_constant",
    "hardswish_func",
    "helper_align_up",
    "helper_change_dtypes_to_be_same",
    "helper_change_dtypes_to_int8",
    "helper_change_dtypes_to_uint8",
    "helper_change_dtypes_to_uint8_int8",
    "helper_no_fast_int8_hw_legalization",
    "is_fast_int8_on_intel",
    "legalize_qnn_conv2d",
    "legalize_qnn_conv2d_transpose",
    "legalize_qnn_dense",
    "qnn_conv2d_legalize",
    "qnn_conv2d_transpose_legalize",
    "qnn_dense_legalize",
    "register_qnn_unary_op_legalize",
]
