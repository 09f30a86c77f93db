"""Values of nested tuple types as sequences of their tensors, in order (classic `relay.op.memory`)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.expr import Expr, Tuple, TupleGetItem
from tilewright.support.errors import TVMError

__all__ = ["flatten_tuple_type", "from_tuple_type", "to_tuple_type"]


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """The tensor types in a type, those of nested tuples in order. TVMError for a type that holds anything else."""
    if isinstance(ty, TensorType):
        return [ty]
    if isinstance(ty, TupleType):
        return [found for field in ty.fields for found in flatten_tuple_type(field)]
    raise TVMError(f"only tensors and tuples of them are flattened, but the type is {ty}")


def from_tuple_type(ty: Type, expr: Expr) -> list[Expr]:
    """The tensors of an expression of a type, one expression each, in order."""
    if isinstance(ty, TupleType):
        fields = expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, i) for i in range(len(ty.fields))]
        return [found for t, field in zip(ty.fields, fields, strict=True) for found in from_tuple_type(t, field)]
    flatten_tuple_type(ty)
    return [expr]


def to_tuple_type(ty: Type, exprs: Sequence[Expr]) -> Expr:
    """Expressions of tensors packed into the tuples that a type says. TVMError where their number is another."""
    count = len(flatten_tuple_type(ty))
    if len(exprs) != count:
        raise TVMError(f"the type {ty} has {count} tensors, but {len(exprs)} expressions were given")
    rest = iter(exprs)

    def pack(t: Type) -> Expr:
        return Tuple(tuple([pack(f) for f in t.fields])) if isinstance(t, TupleType) else next(rest)

    return pack(ty)
