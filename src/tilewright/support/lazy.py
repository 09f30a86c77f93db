"""Attributes of packages that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from tilewright.support.collection import paused_collection

_declared: dict[str, dict[str, str]] = {}
_whole: dict[str, str] = {}


def declare(package: str, table: Mapping[str, str]) -> None:
    """Say where attributes of a package come from: "module" or "module:attribute" by name."""
    _declared.setdefault(package, {}).update(table)


def declare_all(package: str, module: str) -> None:
    """Say that a package has all attributes of a module which comes later."""
    _whole[package] = module


def names(package: str) -> list[str]:
    """The names declared for a package."""
    return [*_declared.get(package, ()), *(dir(import_module(_whole[package])) if package in _whole else ())]


def resolver(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose attributes are declared, by itself or by a layer above it."""

    def __getattr__(name: str) -> Any:
        place = _declared.get(package, {}).get(name)
        if place is None and package in _whole and not name.startswith("__"):
            place = f"{_whole[package]}:{name}"
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        module, _, attribute = place.partition(":")
        # Modules are many objects that stay: a sixth of the time of their import would go to looking for cycles.
        with paused_collection():
            value = import_module(module)
        if attribute:
            value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


class Face(ModuleType):
    """A module that holds no code: names of other modules, under the path that programs know them by."""

    def __init__(self, path: str, home: str, held: Iterable[str]) -> None:
        super().__init__(path, f"Names of {home}, where classic programs look for them.")
        self._home = home
        self._places = {}
        for entry in held:
            place, _, name = entry.rpartition(":")
            self._places[name] = place or home
        if self._places:
            self.__all__ = list(self._places)

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__
        place = facts.get("_places", {}).get(name)
        if place is None and not facts.get("_places", True) and (name == "__all__" or not name.startswith("__")):
            place = facts["_home"]
        if place is None or not hasattr(home := import_module(place), name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        value = getattr(home, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__all__})


def faces(package: str, table: Mapping[str, Iterable[str]]) -> None:
    """Modules below a package that only hold names of others: by module, its names, which are the package's own unless
    "module:name" says where they stand; without names, all that the package has."""
    for name, held in table.items():
        face = Face(f"{package}.{name}", package, held)
        sys.modules[face.__name__] = face
        declare(package, {name: face.__name__})
