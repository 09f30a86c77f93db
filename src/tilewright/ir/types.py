"""The types of the IR: primitive and pointer types of tir, tensor, tuple and function types of relay."""

from __future__ import annotations

from typing import Any

from tilewright.ir.dtype import DataType
from tilewright.ir.prim_expr import IntImm, PrimExpr
from tilewright.ir.span import BaseSpan
from tilewright.node import VARIABLE, Def, Node, Skip, register_converter


class Type(Node):
    """Root of types."""

    def __eq__(self, other: object) -> bool:
        from tilewright.node import structural_equal

        return isinstance(other, Type) and structural_equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        from tilewright.node import structural_hash

        return structural_hash(self)


register_converter("Type", Type)


class TypeKind:
    """Kinds of type variables."""

    Type, ShapeVar, BaseType, Constraint, AdtHandle, TypeData = 0, 1, 2, 4, 5, 6


class PrimType(Type, key="PrimType"):
    """A scalar or vector of `dtype`."""

    dtype: DataType


class VoidType(Type, key="VoidType"):
    """The type of what returns nothing."""


class PointerType(Type, key="PointerType"):
    """A pointer into storage of some scope ("global", "local", "shared", ...)."""

    element_type: Type
    storage_scope: str = "global"


class TypeVar(Type, key="TypeVar"):
    """A type variable of a polymorphic function."""

    _identity = VARIABLE
    _cosmetic = frozenset({"name_hint"})
    _leaf = True

    name_hint: str
    kind: int = TypeKind.Type

    __hash__ = object.__hash__

    def __call__(self, *args: Type) -> TypeCall:
        """The type constructor that this stands for, applied."""
        return TypeCall(self, args)

    def __eq__(self, other: object) -> bool:
        return self is other


class GlobalTypeVar(Type, key="GlobalTypeVar"):
    """The name of a type that a module defines. Called with types it is that type of them: `List(A)`."""

    name_hint: str
    kind: int = TypeKind.AdtHandle

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)


register_converter("TypeVar", TypeVar)
register_converter("GlobalTypeVar", GlobalTypeVar)


class TypeCall(Type, key="TypeCall"):
    """A type constructor applied to arguments."""

    func: Type
    args: tuple[Type, ...]


class TupleType(Type, key="TupleType"):
    """A fixed number of values."""

    fields: tuple[Type, ...]
    span: Skip[BaseSpan | None] = None


class TypeConstraint(Type):
    """Root of constraints among types."""


class TypeRelation(TypeConstraint, key="TypeRelation"):
    """A relation that must hold among types: the first `num_inputs` of `args` decide the others.

    Operators carry their relations in their cards; this is the form in which a function type may state one."""

    func: Any
    args: tuple[Type, ...]
    num_inputs: int
    attrs: Any = None


class AffineType(Type):
    """Root of the types of quantised values: real value = scale * (value - zero_point)."""


class TensorAffineType(AffineType, key="TensorAffineType"):
    """A tensor of `dtype` with its scale and zero point (expressions); `axis` is that of per-channel scales."""

    scale: Any
    zero_point: Any
    dtype: DataType
    axis: int = -1


class TupleAffineType(AffineType, key="TupleAffineType"):
    """Several of them."""

    types: tuple[TensorAffineType, ...]


class FuncType(Type, key="FuncType"):
    """A function from argument types to a result type."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: Def[tuple[TypeVar, ...]] = ()
    type_constraints: tuple[TypeConstraint, ...] = ()

    def _binds(self) -> list[Any]:
        return list(self.type_params)


class IncompleteType(Type, key="IncompleteType"):
    """A type yet to be inferred."""

    _identity = VARIABLE
    _leaf = True

    kind: int = TypeKind.Type

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_DIM_TYPES = frozenset({"int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64"})


class RefType(Type, key="relay.RefType"):
    """A mutable reference."""

    value: Type


class TensorType(Type, key="relay.TensorType"):
    """A tensor: `shape` holds integers or symbolic dimensions, `dtype` the element type."""

    shape: tuple[PrimExpr, ...]
    dtype: DataType = DataType("float32")
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        for d in self.shape:
            if d.dtype not in _DIM_TYPES or (type(d) is IntImm and d.value < 0):
                what = "must not be negative" if d.dtype in _DIM_TYPES else "must be an integer or a symbol"
                raise (ValueError if d.dtype in _DIM_TYPES else TypeError)(
                    f"a dimension of a tensor type {what}, but is {d!r} in {tuple(self.shape)}; relay.Any() is one of"
                    " which nothing is known"
                )

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as integers. Raises TypeError when a dimension is symbolic."""
        return tuple([int(dim) for dim in self.shape])  # type: ignore[call-overload]

    @property
    def ndim(self) -> int:
        return len(self.shape)
