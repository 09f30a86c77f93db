"""Types as words of a program, `T.float32`, and the naming of what they make."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, as_prim_expr
from tilewright.ir.types import PointerType, PrimType, Type, VoidType
from tilewright.script.parser import active_or_none
from tilewright.tir.arithmetic import EqualOp, cast_to, const
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, SizeVar, Var


class Word:
    """A data type: an annotation as it stands, a variable when called without a value, else a value of that type."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype

    @property
    def type_annotation(self) -> Type:
        return PrimType(self.dtype)

    @property
    def name(self) -> str:
        return str(self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> Any:
        if expr is None:
            return unnamed((SizeVar if is_size_var else Var)("v", self.dtype))
        return self._value(expr)

    def _value(self, value: Any) -> PrimExpr:
        kind = self.dtype
        if kind.lanes > 1 and not isinstance(value, (PrimExpr, EqualOp)):
            return Broadcast(Word(kind.element)._value(value), kind.lanes)
        if isinstance(value, str):
            if not kind.is_float:
                raise TypeError(f"T.{kind} takes a number, but was given the string {value!r}")
            try:
                return FloatImm(kind, float(value))
            except ValueError:
                what = f'T.{kind} takes a number, "inf", "-inf" or "nan", but was given {value!r}'
                raise TypeError(what) from None
        if isinstance(value, (int, float, np.number, np.bool_)):
            if kind.is_float:
                return FloatImm(kind, float(value))
            if kind.is_int or kind.is_uint:
                if isinstance(value, (float, np.floating)):
                    return const(value, kind)
                return IntImm(kind, int(value))
        return cast_to(as_prim_expr(value, f"the argument of T.{kind}"), kind)


class HandleWord(Word):
    """`T.handle`, and `T.handle("float32", "shared")` for a typed pointer."""

    __slots__ = ()

    def __call__(self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> Any:
        if isinstance(dtype, Var) and dtype.dtype == "handle" and id(dtype) in getattr(active_or_none(), "unnamed", ()):
            # The type of a pointer, given as the word of it.
            dtype = dtype.type_annotation
        if isinstance(dtype, (PrimExpr, int)):
            return self._value(dtype)
        if isinstance(dtype, Word):
            dtype = dtype.dtype
        if dtype is None and storage_scope == "global":
            return unnamed((SizeVar if is_size_var else Var)("v", self.dtype))
        if isinstance(dtype, Type):
            element = dtype
        else:
            element = VoidType() if dtype is None or dtype == "void" else PrimType(DataType(dtype))
        return unnamed((SizeVar if is_size_var else Var)("v", PointerType(element, storage_scope)))

    def __getitem__(self, keys: Any) -> Any:
        """`T.Ptr["float32", "shared"]`, an older form of `T.handle("float32", "shared")`."""
        return self(*keys) if isinstance(keys, tuple) else self(keys)


def dtype_of(value: Any) -> DataType:
    """A data type from its name, from a word such as T.float32, or as it is."""
    if isinstance(value, Word):
        return value.dtype
    if not isinstance(value, str):
        raise TypeError(f'a data type is a string such as "float32", but {value!r} was given')
    return DataType(value)


def with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """The word of an intrinsic: as in older scripts `dtype=...` may stand last.

    Where a function takes the type of its result first, it is given there; where the type follows, it says nothing.
    """
    names = list(inspect.signature(function).parameters)
    if names and names[0] == "dtype":

        @wraps(function)
        def word(*args: Any, **kwargs: Any) -> Any:
            return function(kwargs.pop("dtype"), *args, **kwargs) if "dtype" in kwargs else function(*args, **kwargs)

    elif "dtype" in names:
        return function
    else:

        @wraps(function)
        def word(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("dtype", None)
            return function(*args, **kwargs)

    return word


def var(dtype: str = "int32", name: str = "") -> Var:
    """A new variable; without a name the first assignment names it."""
    made = unnamed(Var(name or "v", DataType(dtype)))
    p = active_or_none()
    if name and p is not None:
        p.unnamed.pop(id(made), None)
    return made


def ptr(dtype: str, storage_scope: str = "global", is_size_var: bool = False) -> Var:
    """A new pointer to elements of a type."""
    made: Var = handle(dtype, storage_scope, is_size_var=is_size_var)
    return made


def buffer_var(dtype: str, storage_scope: str = "global") -> Var:
    """A new pointer to the data of a buffer."""
    return ptr(dtype, storage_scope)


handle = HandleWord(DataType("handle"))


def unnamed(var: Var) -> Var:
    """A new variable, which the first assignment names when a program is being parsed."""
    p: Any = active_or_none()
    if p is None:
        return var
    if hasattr(p, "fresh_var"):
        p.fresh_var(var)
    else:
        p.unnamed[id(var)] = (var, lambda name: rename_var(var, name), p.at)
        p.declared[id(var)] = var
    return var


def rename_var(var: Var, name: str) -> None:
    """Names a variable that nothing has seen yet."""
    object.__setattr__(var, "name", name)


def rename_buffer(buffer: Buffer, own: tuple[Any, ...], name: str) -> None:
    """Names a buffer that nothing has seen yet, and those of its variables that are its own."""
    object.__setattr__(buffer, "name", name)
    for var, suffix in own:
        rename_var(var, name + suffix)
