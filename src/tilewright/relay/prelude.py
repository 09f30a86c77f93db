"""The prelude: lists, options and trees, and the functions on them, written in relay text (std/prelude.rly)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.module import register_text_import
from tilewright.relay.adt import Constructor, TypeData
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.source_map import remember

STANDARD = Path(__file__).parent / "std"


@cache
def standard_module(name: str) -> IRModule:
    """A module of the standard library (`prelude.rly`), parsed once. Raises ValueError for an unknown name."""
    path = STANDARD / name
    if not path.is_file():
        known = sorted([p.name for p in STANDARD.glob("*.rly")])
        raise ValueError(f"the standard library has no file {name!r}; it has {', '.join(known)}")
    text = path.read_text(encoding="utf-8")
    remember(name, text)
    return parse_module_text(Source(name, text), None, None)


class Prelude:
    """Adds the prelude to a module, which is changed, and answers its names: `p.map`, `p.types["List"]`.

    Types and functions that the module has already under these names stay as they are."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod if mod is not None else IRModule()
        source = standard_module("prelude.rly")
        taken = {h.name_hint for h in self.mod.type_definitions}
        for header, data in source.type_definitions.items():
            if header.name_hint not in taken:
                self.mod[header] = data
        for gvar, f in source.functions.items():
            if gvar not in self.mod.functions:
                self.mod[gvar] = f

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The name of a type, then its constructors."""
        return self.mod.get_type(name)

    def get_ctor(self, type_name: str, name: str) -> Constructor:
        """A constructor by the name of its type and its own. Raises ValueError when there is none."""
        constructors: tuple[Constructor, ...] = self.get_type(type_name)[1:]
        for c in constructors:
            if c.name_hint == name:
                return c
        known = ", ".join([c.name_hint for c in constructors])
        raise ValueError(f"{type_name} has no constructor {name!r}; it has {known}")

    @property
    def types(self) -> dict[str, TypeData]:
        """The definitions of the prelude's types by name."""
        return {h.name_hint: data for h, data in self.mod.type_definitions.items()}

    def __getattr__(self, name: str) -> GlobalVar:
        if name.startswith("__") or name == "mod":
            raise AttributeError(name)
        try:
            return self.mod.get_global_var(name)
        except ValueError:
            raise AttributeError(f"the prelude has no function {name!r}") from None


def import_from_std(mod: IRModule, name: str) -> None:
    """Add a module of the standard library to `mod`."""
    mod.update(standard_module(name))


def import_file(mod: IRModule, path: str) -> None:
    """Add the module in a file of relay text to `mod`. Raises OSError where there is no such file."""
    text = Path(path).read_text(encoding="utf-8")
    remember(path, text)
    mod.update(parse_module_text(Source(path, text), mod, None))


register_text_import(import_from_std, import_file)
