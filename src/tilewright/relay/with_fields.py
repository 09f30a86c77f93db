"""Copies of expressions with some fields changed (classic `relay.expr.CallWithFields` and its relatives). None leaves a field as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tilewright.ir import Attrs, Type
from tilewright.ir import TypeVar as RelayTypeVar
from tilewright.ir.span import BaseSpan
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)

E = TypeVar("E", bound=Expr)


def _changed(expr: E, virtual_device: Any, **fields: Any) -> E:
    if virtual_device is not None:
        raise ValueError(
            f"a virtual device is no field of a {type(expr).__name__}; annotate the expression: relay.annotation.on_device"
        )
    given = {name: value for name, value in fields.items() if value is not None}
    return expr.replace(**given) if given else expr


def CallWithFields(
    call: Call, op: Expr | None = None, args: Sequence[Expr] | None = None, attrs: Attrs | None = None,
    type_args: Sequence[Type] | None = None, virtual_device: Any = None, span: BaseSpan | None = None,
) -> Call:  # fmt: skip
    """The call with another operator, other arguments, attributes or type arguments."""
    return _changed(call, virtual_device, op=op, args=args, attrs=attrs, given_types=type_args, span=span)


def ConstantWithFields(
    constant: Constant, data: Any = None, virtual_device: Any = None, span: BaseSpan | None = None
) -> Constant:
    """The constant with other data."""
    return _changed(constant, virtual_device, data=data, span=span)


def FunctionWithFields(
    function: Function, params: Sequence[Var] | None = None, body: Expr | None = None, ret_type: Type | None = None,
    ty_params: Sequence[RelayTypeVar] | None = None, attrs: Mapping[str, Any] | None = None, virtual_device: Any = None,
    span: BaseSpan | None = None,
) -> Function:  # fmt: skip
    """The function with other parameters, another body, type or attributes."""
    return _changed(
        function,
        virtual_device,
        params=params,
        body=body,
        ret_type=ret_type,
        type_params=ty_params,
        attrs=attrs,
        span=span,
    )


def IfWithFields(
    if_expr: If, cond: Expr | None = None, true_branch: Expr | None = None, false_branch: Expr | None = None,
    virtual_device: Any = None, span: BaseSpan | None = None,
) -> If:  # fmt: skip
    """The conditional with another condition or other branches."""
    return _changed(if_expr, virtual_device, cond=cond, true_branch=true_branch, false_branch=false_branch, span=span)


def LetWithFields(
    let: Let, variable: Var | None = None, value: Expr | None = None, body: Expr | None = None, virtual_device: Any = None,
    span: BaseSpan | None = None,
) -> Let:  # fmt: skip
    """The binding with another variable, value or body."""
    return _changed(let, virtual_device, var=variable, value=value, body=body, span=span)


def RefCreateWithFields(
    ref_create: RefCreate, value: Expr | None = None, virtual_device: Any = None, span: BaseSpan | None = None
) -> RefCreate:
    """The new reference with another value."""
    return _changed(ref_create, virtual_device, value=value, span=span)


def RefReadWithFields(
    ref_read: RefRead, ref: Expr | None = None, virtual_device: Any = None, span: BaseSpan | None = None
) -> RefRead:
    """The reading of another reference."""
    return _changed(ref_read, virtual_device, ref=ref, span=span)


def RefWriteWithFields(
    ref_write: RefWrite, ref: Expr | None = None, value: Expr | None = None, virtual_device: Any = None,
    span: BaseSpan | None = None,
) -> RefWrite:  # fmt: skip
    """The writing of another value, or to another reference."""
    return _changed(ref_write, virtual_device, ref=ref, value=value, span=span)


def TupleWithFields(
    tup: Tuple, fields: Sequence[Expr] | None = None, virtual_device: Any = None, span: BaseSpan | None = None
) -> Tuple:
    """The tuple with other elements."""
    return _changed(tup, virtual_device, fields=fields, span=span)


def TupleGetItemWithFields(
    tuple_get_item: TupleGetItem, tuple_value: Expr | None = None, index: int | None = None, virtual_device: Any = None,
    span: BaseSpan | None = None,
) -> TupleGetItem:  # fmt: skip
    """Another element, or that of another tuple."""
    return _changed(tuple_get_item, virtual_device, tuple_value=tuple_value, index=index, span=span)


def VarWithFields(
    variable: Var, vid: str | None = None, type_annotation: Type | None = None, virtual_device: Any = None,
    span: BaseSpan | None = None,
) -> Var:  # fmt: skip
    """A new variable with another name or type; the same one where nothing is changed."""
    return _changed(variable, virtual_device, name_hint=vid, type_annotation=type_annotation, span=span)
