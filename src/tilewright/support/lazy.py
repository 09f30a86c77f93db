"""Attributes of packages that are imported when they are first asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from tilewright.support.loading import loading

_declared: dict[str, dict[str, str]] = {}
_whole: dict[str, str] = {}


def declare(package: str, table: Mapping[str, str]) -> None:
    """Say where attributes of a package come from: "module" or "module:attribute" by name."""
    _declared.setdefault(package, {}).update(table)


def declare_all(package: str, module: str) -> None:
    """Say that a module has all attributes, and none but those, of one which comes later."""
    _whole[package] = module


def declare_modules(package: str) -> None:
    """Say that a package has the modules in its folder as attributes, whoever imports them; what is declared otherwise stays so."""
    table = _declared.setdefault(package, {})
    for entry in (e for folder in sys.modules[package].__path__ for e in os.scandir(folder)):
        name = entry.name.removesuffix(".py")
        if not name.startswith("_") and (name != entry.name or os.path.exists(os.path.join(entry.path, "__init__.py"))):
            table.setdefault(name, f"{package}.{name}")


def names(package: str) -> list[str]:
    """The names declared for a package."""
    return [*_declared.get(package, ()), *(dir(import_module(_whole[package])) if package in _whole else ())]


def late(
    package: str, otherwise: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose attributes are declared, by itself or by a layer above it; `otherwise` answers
    names that nobody declared."""

    def __getattr__(name: str) -> Any:
        place = _declared.get(package, {}).get(name)
        if place is None and package in _whole and not name.startswith("__"):
            place = f"{_whole[package]}:{name}"
        if place is None and name == "_ffi_api" and hasattr(sys.modules[package], "__path__"):
            made = sys.modules[f"{package}._ffi_api"] = RegistryModule(package)
            setattr(sys.modules[package], name, made)
            return made
        if place is None and otherwise is not None and not name.startswith("__"):
            return otherwise(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        module, _, attribute = place.partition(":")
        with loading():
            value = import_module(module)
            if attribute:
                value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        own = () if package in _whole else vars(sys.modules[package])
        return sorted({*own, *names(package)})

    return __getattr__, __dir__


def names_of(package: str) -> Callable[[str], Any]:
    """`otherwise` of a module by which programs ask for names of its package, too."""
    return lambda name: getattr(import_module(package), name)


class PackageModule(ModuleType):
    """A package that keeps what it has under a name, such as a function, where the import system would put the module of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        facts = self.__dict__
        if name in facts:
            kept = not isinstance(facts[name], ModuleType)
        else:
            # What is declared, and not loaded yet.
            kept = name in facts.get("_places", ()) or ":" in _declared.get(self.__name__, {}).get(name, "")
        if not (kept and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


class AliasModule(PackageModule):
    """A module without code of its own, which gives names of other modules their public path."""

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
        if place is not None:
            with loading():
                home = import_module(place)
            if not facts["_places"]:
                # What it lacks, it tells itself.
                return getattr(home, name)
            if hasattr(home, name):
                setattr(self, name, getattr(home, name))
                return getattr(home, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        held = getattr(self, "__all__", None)
        if held is None:
            # The home says nothing of what is public.
            with loading():
                held = [name for name in dir(import_module(self._home)) if not name.startswith("__")]
        return sorted({*self.__dict__, *held})


class RegistryModule(ModuleType):
    """The functions that are registered below a package's name, as classic programs look them up: `tvm.runtime._ffi_api.SystemLib` is the
    global function "runtime.SystemLib". A name that nobody registered is one of the package's own."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package}._ffi_api", f"Registered functions of {package}.")
        self._package = package

    def __getattr__(self, name: str) -> Any:
        package = self.__dict__.get("_package", "")
        if name.startswith("__") or not package:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        registered = f"{package.partition('.')[2]}.{name}"
        with loading():
            found = import_module("tilewright.runtime").get_global_func(registered, allow_missing=True)
            found = found if found is not None else getattr(import_module(package), name, None)
        if found is None:
            raise AttributeError(f"there is no registered function {registered!r}", name=name, obj=self)
        return found


def faces(package: str, table: Mapping[str, Iterable[str]]) -> None:
    """Modules below a package that only hold names of others: by module, its names, which are the package's own unless
    "module:name" says where they stand; without names, all that the package has."""
    for name, held in table.items():
        face = AliasModule(f"{package}.{name}", package, held)
        sys.modules[face.__name__] = face
        outer = sys.modules.get(face.__name__.rpartition(".")[0])
        if outer is not None and not hasattr(outer, "__path__"):
            # Only packages have modules.
            outer.__path__ = []
        short = face.__name__.rpartition(".")[2]
        if isinstance(outer, AliasModule) and short not in outer.__dict__["_places"]:
            outer.__dict__.setdefault(short, face)
        declare(package, {name: face.__name__})
