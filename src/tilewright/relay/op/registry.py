"""Functions by which programs extend existing operators: legalisation, layout conversion, mixed precision."""

from __future__ import annotations

from typing import Any

from tilewright.ir.op import register_op_attr

__all__ = [
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_optional_fake_quantization_to_integer",
    "register_qnn_legalize",
]


def register_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Sets how `relay.transform.Legalize` rewrites calls: `f(attrs, inputs, types)` returns an expression or None. types: those of
    the inputs, then of the result. A decorator if `legal_op` is not given."""
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


def register_convert_op_layout(op_name: str, convert_layout: Any = None, level: int = 10) -> Any:
    """Sets how `relay.transform.ConvertLayout` rewrites calls: `f(attrs, inputs, tinfos, desired_layouts)` returns an expression or
    None. A decorator if `convert_layout` is not given."""
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)


def register_alter_op_layout(op_name: str, alter_layout: Any = None, level: int = 10) -> Any:
    """Sets how `relay.transform.AlterOpLayout` rewrites calls, before its own choice: `f(attrs, inputs, tinfos, out_type)` returns
    an expression or None. A decorator if `alter_layout` is not given."""
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Sets how `relay.transform.ToMixedPrecision` treats an operator: `f(call, mixed_precision_type)` returns [category, dtype of
    sums, dtype of the result]. The categories are in `relay.transform.mixed_precision`. A decorator if `func` is not given."""
    return register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Sets how `relay.qnn.transform.Legalize`, the first pass of a build, rewrites calls of a quantised operator; the function is
    as in `register_legalize`. A decorator if `legal_op` is not given."""
    return register_op_attr(op_name, "FTVMQnnLegalize", legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Sets how `relay.qnn.transform.CanonicalizeOps` makes calls of a quantised operator plain ones, before the operator's own rule; the
    function is as in `register_legalize`. A decorator if `legal_op` is not given."""
    return register_op_attr(op_name, "FTVMQnnCanonicalize", legal_op, level)


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Sets how FakeQuantizationToInteger converts an operator: `f(expr, type_map)` returns [expression, affine type], or None if it
    has no integer form.

    expr: the call on integers. type_map: their affine types (TensorAffineType; TupleAffineType for tuples), and under `expr` the
    affine type that is wanted for the result, if any. Takes precedence over the built-in rules. A decorator if `func` is not given.
    """
    return register_op_attr(op_name, "FTVMFakeQuantizationToInteger", func, level)


def register_optional_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Like register_fake_quantization_to_integer, but used only if `optional_qnn_ops` contains the operator."""
    return register_op_attr(op_name, "FTVMOptionalFakeQuantizationToInteger", func, level)
