"""Containers of the runtime: tuples and values of algebraic data types, references, functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.runtime import _ffi
from tilewright.runtime.packed_func import global_func
from tilewright.runtime.values import ShapeTuple as ShapeTuple
from tilewright.runtime.values import String as String


class ADT(_ffi.Object):
    """A value of an algebraic data type: the tag of its constructor, and its fields. Tuples have the tag 0."""

    def __new__(cls, tag: int | None = None, fields: Sequence[Any] = ()) -> ADT:
        if tag is None:
            return super().__new__(cls)
        made: ADT = global_func("runtime.ADT")(int(tag), *fields)
        return made

    @property
    def tag(self) -> int:
        """The place of the constructor in its type."""
        tag: int = global_func("runtime.GetADTTag")(self)
        return tag

    def __len__(self) -> int:
        size: int = global_func("runtime.GetADTSize")(self)
        return size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"field {index} of a value with {count} was asked for")
        return global_func("runtime.GetADTFields")(self, index % count)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        return f"ADT(tag={self.tag}, {len(self)} fields)"


def tuple_object(fields: Sequence[Any] | None = None) -> ADT:
    """A tuple as the runtime holds it."""
    return ADT(0, fields or ())


class Ref(_ffi.Object):
    """A cell that programs of the virtual machine read and write."""

    def __new__(cls, *value: Any) -> Ref:
        if not value:
            return super().__new__(cls)
        made: Ref = global_func("runtime.VMRef")(*value)
        return made

    @property
    def value(self) -> Any:
        """The current value of the cell."""
        return global_func("runtime.VMRefGet")(self)


class VMClosure(_ffi.Object):
    """A function that a program returned; `VirtualMachine.invoke_closure` calls it."""


_ffi.register_class(global_func("runtime.ADTTypeIndex")(), ADT)
_ffi.register_class(global_func("runtime.VMRefTypeIndex")(), Ref)
_ffi.register_class(global_func("runtime.VMClosureTypeIndex")(), VMClosure)
