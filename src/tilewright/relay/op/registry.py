"""Registers for programs to extend existing operators: legalisation, layout conversion, mixed precision."""

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
    """Says what `relay.transform.Legalize` makes of calls: `f(attrs, inputs, types) -> expression or None`, `types` being those
    of the inputs, then of the result. Without `legal_op` a decorator."""
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


def register_convert_op_layout(op_name: str, convert_layout: Any = None, level: int = 10) -> Any:
    """Says what `relay.transform.ConvertLayout` makes of calls: `f(attrs, inputs, tinfos, desired_layouts) -> expression or
    None`. Without `convert_layout` a decorator."""
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)


def register_alter_op_layout(op_name: str, alter_layout: Any = None, level: int = 10) -> Any:
    """Says what `relay.transform.AlterOpLayout` makes of calls, before its own choice: `f(attrs, inputs, tinfos, out_type) ->
    expression or None`. Without `alter_layout` a decorator."""
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Says how `relay.transform.ToMixedPrecision` treats an operator: `f(call, mixed_precision_type) -> [category, dtype that it
    accumulates in, dtype of the result]`; the categories are those of `relay.transform.mixed_precision`. Without `func` a decorator."""
    return register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Says what `relay.qnn.transform.Legalize`, the first pass of a build, makes of calls of a quantised operator, as `register_legalize`
    does. Without `legal_op` a decorator."""
    return register_op_attr(op_name, "FTVMQnnLegalize", legal_op, level)


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Says how FakeQuantizationToInteger carries an operator over: `f(expr, type_map) -> [expression, affine type]`. `expr` is the
    call on integers, `type_map` their affine types (TensorAffineType, TupleAffineType for tuples), and under `expr` the one that is
    wanted of the result where something asks for it. None where it has no integer form. Goes before what the pass knows itself.
    Without `func` a decorator."""
    return register_op_attr(op_name, "FTVMFakeQuantizationToInteger", func, level)


def register_optional_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """The same, done only where `optional_qnn_ops` names the operator."""
    return register_op_attr(op_name, "FTVMOptionalFakeQuantizationToInteger", func, level)
