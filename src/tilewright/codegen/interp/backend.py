"""The interpreter as a back end: whole models and tensor programs, with checks of bounds and races."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tilewright.codegen.backend import BLOCKS, NO_RULES, Code
from tilewright.codegen.hosted import HostedBackEnd, Kernel
from tilewright.codegen.interp.values import InterpError
from tilewright.ir import IRModule
from tilewright.runtime.errors import register_error
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc

register_error(InterpError)


class Interpreted(HostedBackEnd):
    """Runs programs before lowering: with blocks and with buffers of several dimensions, so that errors use the program's names. The
    kernels of models are not scheduled."""

    kind: ClassVar[str] = "interp"
    forms: ClassVar[tuple[str, ...]] = ("py", "json")
    takes: ClassVar[str] = BLOCKS
    rules: ClassVar[str] = NO_RULES
    packed: ClassVar[bool] = True

    def emit(self, mod: IRModule, target: Target) -> Code:
        from tilewright.codegen.interp.programs import program_text

        return Code(program_text(mod))

    def functions(self, code: bytes) -> Mapping[str, Kernel]:
        raise TVMError("an object of the interpreter is damaged: it does not begin as programs do")

    def text(self, code: Code, target: Target, form: str) -> str:
        from tilewright.codegen.interp.programs import python_text

        return code.text if form == "json" else python_text(code.text)

    def build(self, mod: IRModule, target: Target) -> Any:
        from tilewright.codegen.interp.programs import symbol_of

        code = self.emit(mod, target)
        texts: dict[str, Any] = {form: lambda form=form: self.text(code, target, form) for form in self.forms}
        texts["tir"] = mod.script
        exports = [symbol_of(g.name_hint, f) for g, f in mod.functions.items() if isinstance(f, PrimFunc)]
        return self.module([self.compile(code, target)], exports, texts, target)


BACK_END = Interpreted()

__all__ = ["BACK_END", "Interpreted"]
