"""Python classes for objects of plug-ins, and classes of a program whose values are passed to functions by their address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.runtime import _ffi

C = TypeVar("C", bound=type)

DL_TENSOR_HANDLE = 7
"""The classic type code of values that are the address of a DLTensor."""


def register_object(type_key: str | type | None = None) -> Any:
    """Says which subclass of Object stands for objects of a type that native code registered (TVM_REGISTER_OBJECT_TYPE).

    A decorator, with the type's key, or without one for that of the class's name. Objects that functions return are of the class; its
    `__init__` is not called for them. TypeError if no loaded library has such a type.
    """

    def register(cls: C) -> C:
        if not issubclass(cls, _ffi.Object):
            raise TypeError(f"register_object is for subclasses of tvm.Object, but {cls.__name__} is none")
        _ffi.register_class(_ffi.type_index(type_key if isinstance(type_key, str) else cls.__name__), cls)
        return cls

    return register(type_key) if isinstance(type_key, type) else register


def register_extension(cls: C, fcreate: Callable[..., Any] | None = None) -> C:
    """Lets values of a class be passed to functions as an address: that of `_tvm_handle`, which points to a DLTensor when `_tvm_tcode`
    is TypeCode.DLTENSOR_HANDLE. The value keeps the memory alive.

    Raises AttributeError for a class without `_tvm_tcode`, ValueError for fcreate, which classic TVM gave up too.
    """
    if fcreate is not None:
        raise ValueError("register_extension: extensions with fcreate are not supported")
    _ffi.register_handles(cls, cls._tvm_tcode == DL_TENSOR_HANDLE)  # type: ignore[attr-defined]
    return cls
