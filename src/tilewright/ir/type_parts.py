"""Types by their parts: the types right under one, and types with others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import overload

from tilewright.ir.types import FuncType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar


def parts(t: Type) -> Sequence[Type]:
    """The types right under `t`."""
    if isinstance(t, TupleType):
        return t.fields
    if isinstance(t, FuncType):
        return (*t.arg_types, t.ret_type)
    if isinstance(t, TypeCall):
        return t.args
    return (t.value,) if isinstance(t, RefType) else ()


def map_parts(t: Type, f: Callable[[Type], Type]) -> Type:
    """`t` with `f` applied to the types right under it; the same object if none changed."""
    old = parts(t)
    new = [f(p) for p in old]
    if all([a is b for a, b in zip(new, old, strict=True)]):
        return t
    if isinstance(t, TupleType):
        return TupleType(tuple(new), t.span)
    if isinstance(t, FuncType):
        return FuncType(tuple(new[:-1]), new[-1], t.type_params, t.type_constraints)
    return TypeCall(t.func, tuple(new)) if isinstance(t, TypeCall) else RefType(new[0])


@overload
def substitute_types(t: FuncType, bound: Mapping[TypeVar, Type]) -> FuncType: ...
@overload
def substitute_types(t: Type, bound: Mapping[TypeVar, Type]) -> Type: ...
def substitute_types(t: Type, bound: Mapping[TypeVar, Type]) -> Type:
    """`t` with type variables replaced."""
    if not bound or type(t) is TensorType:
        return t
    if isinstance(t, TypeVar):
        return bound.get(t, t)
    return map_parts(t, lambda p: substitute_types(p, bound))
