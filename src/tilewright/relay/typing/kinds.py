"""check_kind: types of types."""

from __future__ import annotations

from tilewright.ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    IRModule,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeVar,
)
from tilewright.relay.adt import TypeData
from tilewright.relay.texts import type_text
from tilewright.support.errors import TVMError


def check_kind(t: Type, mod: IRModule | None = None) -> int:
    """The kind of a type (see TypeKind). Raises TVMError if the type is not well-kinded: a part is not a type, or an
    algebraic type has the wrong number of arguments (if `mod` defines it).
    """
    if isinstance(t, (TypeVar, GlobalTypeVar, IncompleteType)):
        if isinstance(t, GlobalTypeVar):
            _arguments(t, 0, mod, t)
        return int(t.kind)
    if isinstance(t, TypeData):
        for con in t.constructors:
            for part in con.inputs:
                _type(part, mod, t)
        return TypeKind.TypeData
    if isinstance(t, TypeCall):
        if not isinstance(t.func, GlobalTypeVar) or t.func.kind != TypeKind.AdtHandle:
            raise TVMError(f"{type_text(t)} is not well-kinded: only algebraic types take arguments")
        _arguments(t.func, len(t.args), mod, t)
        for part in t.args:
            _type(part, mod, t)
        return TypeKind.Type
    parts: tuple[Type, ...] = ()
    if isinstance(t, TupleType):
        parts = t.fields
    elif isinstance(t, FuncType):
        parts = (*t.arg_types, t.ret_type)
    elif isinstance(t, RefType):
        parts = (t.value,)
    elif not isinstance(t, TensorType):
        raise TypeError(f"check_kind takes a type of relay, but was given {type(t).__name__}")
    for part in parts:
        _type(part, mod, t)
    return TypeKind.Type


def _type(part: Type, mod: IRModule | None, whole: Type) -> None:
    """Refuses a part that is not a type of values."""
    kind = check_kind(part, mod)
    # The name of an algebraic type without parameters is a type, too.
    if kind not in (TypeKind.Type, TypeKind.BaseType) and not isinstance(part, GlobalTypeVar):
        raise TVMError(f"{type_text(whole)} is not well-kinded: {type_text(part)} in it is not a type of values")


def _arguments(header: GlobalTypeVar, given: int, mod: IRModule | None, whole: Type) -> None:
    data = mod.type_definitions.get(header) if mod is not None else None
    if data is not None and len(data.type_vars) != given:
        raise TVMError(
            f"{type_text(whole)} is not well-kinded: {header.name_hint} takes {len(data.type_vars)} types, but is given {given}"
        )


__all__ = ["check_kind"]
