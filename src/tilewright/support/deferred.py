"""Packages and modules whose code runs when a name of theirs is first read.

`defer("tilewright.te")` puts the module under its name without running it, so that `from tilewright import te` costs nothing
until `te.compute` is wanted: modules that declare operators need not load what compiles them. Imports stay ordinary
statements, which type checkers and the test of layers read. A module below a deferred package is imported without the package's own code.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_loader
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.support.lazy import PackageModule
from tilewright.support.loading import loading

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # The module of these classes loads pathlib, tempfile, urllib and more, which is half of the time of importing the package.
    Loader = MetaPathFinder = object

_locks: dict[str, Any] = {}
_running: set[str] = set()
_below: dict[str, dict[str, ModuleType]] = {}
"""Modules below deferred packages. They are no attributes yet: the package's code may bind their names to other things."""


class Deferred(ModuleType):
    """A module before its first use."""

    def __getattr__(self, name: str) -> Any:
        # Tools look for names between underscores in all modules.
        if not name.startswith("__") or name == "__all__":
            if _asked_from_inside(self.__name__):
                # As while the package's code runs: what is there are its modules, which importlib finds where they are missing.
                if name in _below[self.__name__]:
                    return _below[self.__name__][name]
                if _is_module(f"{self.__name__}.{name}"):
                    raise AttributeError(name=name, obj=self)
            if _load(self):
                return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}":
            _below[self.__name__][name] = value
            # Another thread may have run the code meanwhile.
            if type(self) is not Deferred:
                self.__dict__.setdefault(name, value)
            return
        if name != "__class__":
            # It must outlive the module's own code.
            _load(self)
        ModuleType.__setattr__(self, name, value)

    def __dir__(self) -> list[str]:
        return dir(self) if _load(self) else list(self.__dict__)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        _load(self)
        text: str | None = self.__dict__["__doc__"]
        return text


def defer(*names: str) -> None:
    """Put modules under their names and into their packages, which are imported, or just being imported."""
    for name in names:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        module = module_from_spec(spec)
        module.__class__ = Deferred
        _locks[name], _below[name] = RLock(), {}
        sys.modules[name] = module
        package, _, short = name.rpartition(".")
        setattr(sys.modules[package], short, module)


class _Declared(MetaPathFinder):
    """Finds modules without a file that the code of a deferred package declares (`lazy.faces`), by running it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if not isinstance(parent, Deferred) or not _load(parent) or fullname not in sys.modules:
            return None
        return spec_from_loader(fullname, _Held(sys.modules[fullname]))


class _Held(Loader):
    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """The module is as its package made it."""


sys.meta_path.append(_Declared())


def _asked_from_inside(name: str) -> bool:
    """Whether the code that reads an attribute of a package belongs to it."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == "importlib._bootstrap" and frame.f_back is not None:
        frame = frame.f_back
    asker = str(frame.f_globals.get("__name__"))
    return asker == name or asker.startswith(f"{name}.")


def _is_module(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None


def _bind_below(module: ModuleType) -> None:
    for short, below in tuple(_below[module.__name__].items()):
        module.__dict__.setdefault(short, below)


def _load(module: Deferred) -> bool:
    """Runs a module's code, once; other threads wait until it has run. Returns False while this thread runs it.

    Modules do not read each other in cycles while they load, so no two threads wait for each other.
    """
    name = module.__name__
    with loading(), _locks[name]:
        if name in _running:
            return False
        if type(module) is Deferred:
            _running.add(name)
            before = dict(module.__dict__)
            try:
                module.__loader__.exec_module(module)  # type: ignore[union-attr]
                _bind_below(module)
                module.__class__ = PackageModule if hasattr(module, "__path__") else ModuleType  # type: ignore[assignment]
                # What another thread imported between these two lines.
                _bind_below(module)
            except BaseException:
                module.__dict__.clear()
                module.__dict__.update(before)
                raise
            finally:
                _running.discard(name)
    return True
