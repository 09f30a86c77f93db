"""Base of back ends whose code runs in Python: functions at addresses, which executors call like machine code.

Such a back end implements `functions`, which gives the kernels of an object; this module does the rest. The callers of kernels (the entry
of an ahead-of-time library, the argument checks of packed functions) run in the interpreter. A library holds such code as data. To load it,
a process needs this package and the back end's module.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.codegen.backend import BackEnd, Code, Loaded, back_end_of, back_ends
from tilewright.codegen.hosted_code import Kernel as Kernel
from tilewright.ir import IRModule
from tilewright.runtime.linking.symbols import CONTEXT, LIBRARY
from tilewright.support.errors import TVMError
from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.runtime.module import Module


class HostedBackEnd(BackEnd):
    """A back end whose code runs in Python. Derived classes define `kind`, `forms`, `emit` and `functions`."""

    packed: ClassVar[bool] = False
    linkable: ClassVar[bool] = False

    @abstractmethod
    def functions(self, code: bytes) -> Mapping[str, Kernel]:
        """The kernels that an object defines, by symbol."""

    def compile(self, code: Code, target: Target) -> bytes:
        return code.text.encode()

    def text(self, code: Code, target: Target, form: str) -> str:
        return code.text

    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        from tilewright.codegen.interp.programs import program_text

        return Code(program_text(mod, names) if names else "")

    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        raise TVMError(
            f"code for target kind {self.kind!r} is run by this process, so a program that has no Python cannot hold it:"
            " build without the option system-lib"
        )

    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> Loaded:
        from tilewright.codegen.interp.programs import Linked, is_program

        kernels: dict[str, Kernel] = {}
        programs = []
        for data in objects:
            if is_program(data):
                programs.append(data)
            elif data:
                kernels.update(self.functions(data))
        return Linked(programs, kernels).code(exports)

    def held(self, objects: Sequence[bytes], exports: Sequence[str]) -> bytes:
        head = {
            "kind": self.kind,
            "module": type(self).__module__,
            "exports": list(exports),
            "sizes": [len(o) for o in objects],
        }
        return b"\n".join([__name__.encode(), json.dumps(head).encode(), b"".join(objects)])

    def build(self, mod: IRModule, target: Target) -> Any:
        from tilewright.codegen.interp.programs import program_text
        from tilewright.codegen.interp.wrappers import wrapped

        made = wrapped(mod, target)
        code = self.emit(made.kernels, target)
        objects = [self.compile(code, target), program_text(made.wrappers, made.names).encode()]
        texts = {form: lambda form=form: self.text(code, target, form) for form in self.forms}
        return self.module(objects, made.symbols, texts, target)

    def module(
        self, objects: Sequence[bytes], exports: Sequence[str], texts: Mapping[str, Callable[[], str]], target: Target
    ) -> Module:
        """A runtime.Module of the packed functions `exports`, which `objects` define. texts: the code by form."""
        from tilewright.runtime.linking.module_source import ModuleSource
        from tilewright.runtime.module import Module

        wanted = [*exports, CONTEXT, LIBRARY]
        source = ModuleSource([], {**texts, "": texts[self.forms[0]]}, target.triple)
        source.type_key = self.kind
        source.hold(lambda: self.held(objects, wanted))
        loaded = self.load(objects, wanted)
        return Module.from_symbols(loaded.symbols, loaded, source)


def load_held(data: bytes) -> Module:
    """The module of objects from the data that `held` wrote. Raises TVMError if the back end's module cannot be imported."""
    from tilewright.runtime.module import Module

    line, _, rest = data.partition(b"\n")
    head = json.loads(line)
    if head["kind"] not in back_ends():
        try:
            import_module(head["module"])
        except ImportError as error:
            raise TVMError(
                f"the library holds code for target kind {head['kind']!r}, which the module {head['module']} runs; it cannot be"
                f" imported here: {error}"
            ) from error
    objects, at = [], 0
    for size in head["sizes"]:
        objects.append(rest[at : at + size])
        at += size
    loaded = back_end_of(Target(head["kind"]), "load_module").load(objects, head["exports"])
    return Module.from_symbols(loaded.symbols, loaded)


__all__ = ["HostedBackEnd", "Kernel", "load_held"]
