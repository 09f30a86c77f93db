"""What export and get_source need of a compiled module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.runtime.ndarray import NDArray

HELD = "tilewright_code"
"""The kind of module under which a library holds code that cannot be linked."""


class ModuleSource:
    """What export and get_source need of a compiled module; the code generator subclasses or fills it."""

    type_key = "llvm"

    def __init__(
        self,
        objects: Sequence[bytes] | Callable[[], Sequence[bytes]] = (),
        texts: Mapping[str, Callable[[], str | bytes]] | None = None,
        triple: str | None = None,
        constants: NDArray | None = None,
        data: Mapping[str, NDArray] | None = None,
    ) -> None:
        self._objects = objects if callable(objects) else list(objects)
        self.texts = dict(texts or {})
        """Makers of other forms by format: `ll`, `s`, `c`."""
        self.code_files: Mapping[str, Callable[[], Sequence[str | bytes]]] | None = None
        """By format, makers of all that the objects define, a file each, where `texts` leave something out, or join files; else None."""
        self.beside: Sequence[bytes] = ()
        """Objects of libraries that are not of the code, so that no text stands for them: metadata, what runs at the start."""
        self.triple = triple
        """LLVM target triple; None for this machine."""
        self.constants = constants
        """Blob exported as `__tilewright_constants`."""
        self.data = dict(data or {})
        """Arrays that are exported under other symbols."""
        self.facts: Mapping[str, Any] | None = None
        """What a machine must be to run the code: triple, cpu, features; a library tells it where no metadata does."""
        self.why_not_here = ""
        """Why the code cannot be called in this process; "" when it can."""
        self.archive: Callable[[], Mapping[str, bytes]] | None = None
        """The files of source that a .tar holds instead of the objects, with what compiles them."""
        self.registration: Callable[[Sequence[str]], bytes] | None = None
        """Makes the object that registers symbols with the runtime when a program that holds it starts."""
        self.looked_up: Sequence[str] = ()
        """Symbols of the objects that the runtime looks up, besides those that begin with its own names."""
        self.with_imports = False
        """Whether an object that is saved holds the code of imported modules, too."""
        self.has_imported_functions = False
        """Whether functions of imported modules are the module's own: it was built for several targets."""
        self.system_lib = False
        """Whether each library that is written registers itself; static libraries always do."""
        self.prefix = ""
        """Before the names of all symbols in libraries ("system_lib_prefix")."""
        self.program: tuple[str, Mapping[Any, Any]] | None = None
        """The name that tvm.build was given, and its functions by target."""
        self.alone: Callable[[], str] | None = None
        """The C that a .c holds, which needs no header of ours, where `texts` have it with one."""
        self.binary: Callable[[], bytes] | None = None
        """What a library holds of a module that cannot be linked; `runtime.module.loadbinary_<binary_kind>` makes it again."""
        self._binary_kind = ""
        self.lined: Callable[[Callable[[int], str]], Sequence[tuple[str, bytes]]] | None = None
        """Makes the first objects again, each with the lines of its program as text, which it gives, too; None where no machine asks for
        them. It takes the name of the text of each."""

    def with_lines(self, name: Callable[[int], str]) -> tuple[ModuleSource, list[str]]:
        """(the same with objects that have the lines of their programs, these as texts). name: of the text of each."""
        made = list(self.lined(name)) if self.lined is not None else []
        source, objects = copy.copy(self), self.objects
        source._objects = [*[data for _, data in made], *objects[len(made) : len(objects) - len(self.beside)]]
        return source, [text for text, _ in made]

    def hold_as(self, kind: str, data: Callable[[], bytes]) -> None:
        """Keeps bytes in libraries, of which `runtime.module.loadbinary_<kind>` makes the module again."""
        self.binary, self._binary_kind = data, kind

    @property
    def binary_kind(self) -> str:
        """The kind of module that `binary` describes."""
        return self._binary_kind or self.type_key

    def hold(self, code: Callable[[], bytes]) -> None:
        """Stores code in a library that cannot link it: a line with the name of the Python module that loads the code, then the
        code."""
        self.hold_as(HELD, code)

    @property
    def objects(self) -> list[bytes]:
        """Relocatable objects, those of the code first; what a function makes is made when it is first asked for."""
        if callable(self._objects):
            self._objects = list(self._objects())
        return [*self._objects, *self.beside]

    @property
    def has_objects(self) -> bool:
        """Whether there are objects, which is known before they are made."""
        return bool(self._objects or self.beside)

    def code_in(self, form: str) -> Sequence[str | bytes] | None:
        """All code in a format, in one or more files; None where it is not written in it."""
        if self.code_files is not None:
            return self.code_files[form]() if form in self.code_files else None
        return [self.texts[form]()] if form in self.texts else None
