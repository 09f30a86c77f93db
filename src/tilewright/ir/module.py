"""IRModule: the unit of compilation, a set of functions of any dialect under global names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.ir.expr import BaseFunc, GlobalVar, text_of
from tilewright.ir.types import GlobalTypeVar
from tilewright.node import Mutator, Node, on, structural_equal
from tilewright.support import lazy

# `import_from_std` and `import_file` are declared by the top of the package: relay, whose texts they read, is a layer above.
__getattr__, __dir__ = lazy.late(__name__)


class IRModule(Node, key="IRModule"):
    """Functions by GlobalVar, in the order they were added.

    As in classic TVM a module is a container that `mod["main"] = f` and `update_func` change in
    place; passes take one and give another (`with_functions`), the functions being shared.
    """

    functions: Mapping[GlobalVar, BaseFunc] = {}
    type_definitions: Mapping[GlobalTypeVar, Any] = {}
    attrs: Mapping[str, Any] = {}
    global_infos: Mapping[str, Any] = {}

    def _derive(self) -> None:
        self.functions = {
            (GlobalVar(name) if isinstance(name, str) else name): f for name, f in (self.functions or {}).items()
        }
        self.type_definitions = dict(self.type_definitions or {})
        self.attrs = dict(self.attrs or {})

    @staticmethod
    def from_expr(expr: Any, functions: Any = None, type_defs: Any = None) -> IRModule:
        """A module whose "main" (or global_symbol) is the given function or expression."""
        if not isinstance(expr, BaseFunc):
            expr = _wrap_expr(expr)
        name = expr.attrs.get("global_symbol", "main")
        return IRModule({**(functions or {}), GlobalVar(name): expr}, type_defs or {})

    def with_functions(self, functions: Mapping[GlobalVar, BaseFunc]) -> IRModule:
        """A module with these functions and everything else the same; this one if nothing changed."""
        if len(functions) == len(self.functions) and all([self.functions.get(k) is f for k, f in functions.items()]):
            return self
        return IRModule(functions, self.type_definitions, self.attrs, self.global_infos)

    def get_global_var(self, name: str) -> GlobalVar:
        for gvar in self.functions:
            if gvar.name_hint == name:
                return gvar
        raise ValueError(f"the module has no function {name!r}; it has {[g.name_hint for g in self.functions]}")

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        return list(self.functions.items())

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        return list(self.type_definitions)

    def replace_global_vars(self, replacements: Mapping[GlobalVar | str, GlobalVar | str]) -> IRModule:
        """The module with functions renamed, where they are defined and where they are called."""
        renamed: dict[GlobalVar, GlobalVar] = {}
        for old, new in replacements.items():
            held = self.get_global_var(old) if isinstance(old, str) else old
            renamed[held] = GlobalVar(new) if isinstance(new, str) else new
        names = [renamed.get(g, g).name_hint for g in self.functions]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two functions would be called {', '.join(twice)}")
        functions = {renamed.get(g, g): _rename_globals(f, renamed) for g, f in self.functions.items()}
        return IRModule(functions, self.type_definitions, self.attrs, self.global_infos)

    def get_constructor(self, tag: int) -> Any:
        """The constructor of a tag. Raises ValueError when no type of the module has one, or several have."""
        found = [
            c for data in self.type_definitions.values() for c in getattr(data, "constructors", ()) if c.tag == tag
        ]
        if len(found) != 1:
            names = ", ".join([f"{c.belong_to.name_hint}.{c.name_hint}" for c in found]) or "none"
            raise ValueError(f"exactly one constructor must have the tag {tag}, but the module has {names}")
        return found[0]

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The name of a type that the module defines. Raises ValueError when there is none."""
        for header in self.type_definitions:
            if header.name_hint == name:
                return header
        known = [h.name_hint for h in self.type_definitions]
        raise ValueError(f"the module defines no type {name!r}; it defines {known}")

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The name of a type, then its constructors."""
        header = self.get_global_type_var(name)
        return header, *self.type_definitions[header].constructors

    def __getitem__(self, key: str | GlobalVar | GlobalTypeVar) -> Any:
        if isinstance(key, GlobalTypeVar):
            return self.type_definitions[key]
        return self.functions[self.get_global_var(key) if isinstance(key, str) else key]

    def __contains__(self, key: str | GlobalVar) -> bool:
        return (GlobalVar(key) if isinstance(key, str) else key) in self.functions

    def __setitem__(self, key: str | GlobalVar | GlobalTypeVar, func: Any) -> None:
        if isinstance(key, GlobalTypeVar):
            self.type_definitions[key] = func  # type: ignore[index]
            return
        gvar = GlobalVar(key) if isinstance(key, str) else key
        if not isinstance(func, BaseFunc):
            func = _wrap_expr(func)
        self.functions[gvar] = func  # type: ignore[index]

    def __delitem__(self, key: str | GlobalVar) -> None:
        del self.functions[self.get_global_var(key) if isinstance(key, str) else key]  # type: ignore[attr-defined]

    def update_global_info(self, name: str, global_info: Any) -> None:
        """Set a global info of the module."""
        self.global_infos = {**self.global_infos, name: global_info}

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        self[var] = func

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        items: Iterable[tuple[Any, BaseFunc]] = (
            other.functions.items() if isinstance(other, IRModule) else other.items()
        )
        for key, func in items:
            self[key] = func
        if isinstance(other, IRModule):
            self.type_definitions.update(other.type_definitions)  # type: ignore[attr-defined]

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The module as text; `show_meta_data` appends the values of constants, `annotate(call)` is a comment at each call."""
        return text_of(self, show_meta_data, annotate)

    def shallow_copy(self) -> IRModule:
        return IRModule(self.functions, self.type_definitions, self.attrs, self.global_infos)

    def clone(self) -> IRModule:
        return self.shallow_copy()

    def get_attr(self, attr_key: str) -> Any:
        return self.attrs.get(attr_key)

    def get_attrs(self) -> Mapping[str, Any]:
        return self.attrs

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """The module with these attributes beside its own."""
        return IRModule(self.functions, self.type_definitions, {**self.attrs, **attr_map}, self.global_infos)

    def import_from_std(self, file_to_import: str) -> None:
        """Add a module of relay's standard library, such as "prelude.rly", to this one, which is changed."""
        sys.modules[__name__].import_from_std(self, file_to_import)

    def _import(self, file_to_import: str) -> None:
        """Add the module in a file of relay text to this one, which is changed."""
        sys.modules[__name__].import_file(self, file_to_import)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        return IRModule(self.functions, self.type_definitions, {**self.attrs, attr_key: attr_value}, self.global_infos)

    def without_attr(self, attr_key: str) -> IRModule:
        attrs = {k: v for k, v in self.attrs.items() if k != attr_key}
        return IRModule(self.functions, self.type_definitions, attrs, self.global_infos)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, IRModule) and structural_equal(self, other))

    def __hash__(self) -> int:
        return id(self) >> 4


def _rename_globals(func: BaseFunc, renamed: Mapping[GlobalVar, GlobalVar]) -> BaseFunc:
    class Rename(Mutator):
        @on(GlobalVar)
        def _global(self, gvar: GlobalVar) -> GlobalVar:
            return renamed.get(gvar, gvar)

    new: BaseFunc = Rename().visit(func)
    return new


_wrappers: list[Any] = []


def register_expr_wrapper(wrap: Any) -> None:
    """How a dialect turns a bare expression into a function for `IRModule.from_expr`; returns None to decline."""
    _wrappers.append(wrap)


def _wrap_expr(expr: Any) -> BaseFunc:
    for wrap in _wrappers:
        func = wrap(expr)
        if func is not None:
            result: BaseFunc = func
            return result
    raise TypeError(f"IRModule holds functions or expressions, but was given {type(expr).__name__}: {expr!r}")
