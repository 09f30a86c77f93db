"""The vocabulary of modules, `from tilewright.script import ir as I`: what every dialect shares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import BaseFunc, GlobalVar, IRModule, Op, Range, Type
from tilewright.ir import TupleType as _TupleType
from tilewright.node import load_json as _load_json
from tilewright.script.parser.entry import ModuleParser, module_from
from tilewright.script.parser.statements import active_or_none
from tilewright.support.errors import TVMError

__all__ = [
    "GlobalVar",
    "Op",
    "Range",
    "TupleType",
    "decl_function",
    "def_function",
    "ir_module",
    "load_json",
    "module_attrs",
    "module_get_attr",
    "module_get_attrs",
    "module_global_infos",
    "module_set_attr",
]


def ir_module(mod: type | None = None, check_well_formed: bool = True) -> Any:
    """The module of a class whose methods are programs: `@I.ir_module`, or with options in parentheses."""
    frame = sys._getframe(1)
    if mod is None:
        return lambda cls: module_from(cls, frame, check_well_formed=check_well_formed)
    result: IRModule = module_from(mod, frame, check_well_formed=check_well_formed)
    return result


ir_module.makes_module = True  # type: ignore[attr-defined]


def _module(what: str) -> ModuleParser | None:
    p = active_or_none()
    if p is not None and not isinstance(p, ModuleParser):
        raise TVMError(f"{what} is in the body of a module, outside of its functions")
    # Python runs the body of a class before it is parsed; then the call means nothing yet.
    return p


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Attributes of the module that is being parsed."""
    if not isinstance(attrs, Mapping):
        raise TypeError(f"I.module_attrs takes a dictionary, but was given {type(attrs).__name__}: {attrs!r}")
    p = _module("I.module_attrs")
    if p is not None:
        p.attrs.update(attrs)


def module_get_attrs() -> dict[str, Any]:
    """The attributes that the module being parsed has so far."""
    p = _module("I.module_get_attrs")
    return {} if p is None else dict(p.attrs)


def module_get_attr(attr_key: str) -> Any:
    """An attribute of the module that is being built; None where it has none of that name."""
    p = _module("I.module_get_attr")
    return None if p is None else p.attrs.get(attr_key)


def module_set_attr(attr_key: str, attr_value: Any, allow_overwrite: bool = False) -> None:
    """Gives the module that is being built an attribute. Raises ValueError if it has one of that name, unless `allow_overwrite`."""
    p = _module("I.module_set_attr")
    if p is None:
        return
    if attr_key in p.attrs and not allow_overwrite:
        raise ValueError(f"the module has an attribute {attr_key!r} already; pass allow_overwrite=True to replace it")
    p.attrs = {**p.attrs, attr_key: attr_value}


def module_global_infos(global_infos: Mapping[str, Any]) -> None:
    """The global infos of the module that is being parsed."""
    p = _module("I.module_global_infos")
    if p is not None:
        p.global_infos.update(global_infos)


def decl_function(func_name: str, func_signature: BaseFunc) -> GlobalVar:
    """A function of the module that is being parsed, until I.def_function gives it another body; its global name."""
    return _add_function("I.decl_function", func_name, func_signature)


def def_function(func_name: str, func: BaseFunc) -> None:
    """Makes a function that exists already, of any dialect, a member of the module that is being parsed."""
    _add_function("I.def_function", func_name, func)


def _add_function(what: str, name: str, func: BaseFunc) -> GlobalVar:
    if not isinstance(name, str) or not isinstance(func, BaseFunc):
        raise TypeError(f"{what} takes a name and a function, but was given {name!r} and {type(func).__name__}")
    p = _module(what)
    return GlobalVar(name) if p is None else p.add_function(name, func)


def TupleType(fields: Sequence[Any]) -> _TupleType:
    """The type of a tuple, of types or of words such as T.int32."""
    return _TupleType(tuple([f if isinstance(f, Type) else f.type_annotation for f in fields]))


def load_json(json_str: str) -> Any:
    """The values that a printed program keeps as JSON, because they have no syntax."""
    return _load_json(json_str)
