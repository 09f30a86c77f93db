"""The types of relay under their classic module, and what is asked of them."""

from __future__ import annotations

from tilewright.ir import (
    DataType,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    RelayRefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from tilewright.ir.type_parts import parts
from tilewright.relay.adt import TypeData
from tilewright.tir import Any

__all__ = [
    "Any",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "RefType",
    "RelayRefType",
    "ShapeVar",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "is_dynamic",
    "scalar_type",
    "type_has_any",
]


def ShapeVar(name: str) -> TypeVar:
    """A type variable that stands for a shape."""
    return TypeVar(name, TypeKind.ShapeVar)


def scalar_type(dtype: str) -> TensorType:
    """The type of a tensor of no dimensions."""
    return TensorType((), DataType(dtype))


def is_dynamic(tensor_type: Type) -> bool:
    """Whether some tensor in the type has a dimension of which nothing is known."""
    if isinstance(tensor_type, TensorType):
        return any([isinstance(d, Any) for d in tensor_type.shape])
    return any([is_dynamic(p) for p in parts(tensor_type)])


type_has_any = is_dynamic
