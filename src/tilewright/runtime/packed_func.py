"""PackedFunc and the global registry of functions, shared with native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime import _ffi


class PackedFunc(_ffi.PackedFuncBase):
    """A type-erased function of the runtime; arguments and result are numbers, strings, tensors, functions, modules."""

    __slots__ = ()

    @property
    def is_global(self) -> bool:
        """Whether it came from the global registry; kept for programs that ask."""
        return False

    def __repr__(self) -> str:
        return f"<PackedFunc at {self.handle_address:#x}>"


_ffi.register_class(68, PackedFunc)


def register_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Registers a function under a name for native code and Python; also a decorator, with or without a name."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    def register(function: Callable[..., Any]) -> Any:
        _ffi.set_global(func_name, function, override)
        return function

    return register if f is None else register(f)


register_global_func = register_func


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function registered under a name; ValueError when there is none, unless `allow_missing`."""
    found: PackedFunc | None = _ffi.get_global(name)
    if found is None and not allow_missing:
        raise ValueError(f"no global function is registered as `{name}`; list_global_func_names() lists them")
    return found


def global_func(name: str) -> PackedFunc:
    """A function that the runtime itself registers."""
    found = get_global_func(name)
    assert found is not None
    return found


def list_global_func_names() -> list[str]:
    """Names of all registered functions."""
    names: list[str] = global_func("ffi.FunctionListGlobalNames")()
    return names


def remove_global_func(name: str) -> None:
    """Forgets a registered function."""
    global_func("ffi.FunctionRemoveGlobal")(name)


def convert_to_packed_func(function: Callable[..., Any]) -> PackedFunc:
    """A PackedFunc that calls a Python function."""
    if isinstance(function, PackedFunc):
        return function
    result: PackedFunc = _ffi.function_from_python(function)
    return result


def convert(value: Any) -> Any:
    """A Python value as the runtime holds it: callables become PackedFuncs, lists become tuples (`tvm.ir.Array`), the rest stays."""
    if callable(value) and not isinstance(value, (type, _ffi.Object)):
        return convert_to_packed_func(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return tuple([convert(v) for v in value])
    return {k: convert(v) for k, v in value.items()} if type(value) is dict else value
