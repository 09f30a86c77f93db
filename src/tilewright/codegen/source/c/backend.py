"""Back end for the target c: readable C99, compiled by the C compiler of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tilewright.codegen.backend import BackEnd, Code, WholeModel
from tilewright.codegen.source.c.library import LoadedLibrary, load_objects
from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.transform import Pass
from tilewright.support.object_kind import ObjectKind
from tilewright.target import Target


class C(BackEnd):
    """Emits C text, which the system's compiler or zig compiles and the system's linker links."""

    kind: ClassVar[str] = "c"
    forms: ClassVar[tuple[str, ...]] = ("c",)
    writes_models: ClassVar[bool] = True

    def toolchain(self, target: Target) -> str:
        from tilewright.codegen.source.c.toolchain import toolchain

        return toolchain(target)

    def passes(self, target: Target) -> Sequence[Pass]:
        from tilewright.tir.transform import FuseActivations

        # The error bounds of these functions in C rest on fused multiply-adds.
        return [FuseActivations()] if target.cpu.fma else []

    def build(self, mod: IRModule, target: Target) -> Any:
        from tilewright.codegen.source.c.build import build

        return build(mod, target)

    def emit(self, mod: IRModule, target: Target) -> Code:
        from tilewright.codegen.source.c.module import emit_module
        from tilewright.codegen.source.c.toolchain import effort_of

        return Code(emit_module(mod, target), effort_of(target))

    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        from tilewright.codegen.source.c.module import ModuleEmitter

        emitter = ModuleEmitter(mod, target)
        # Kernels that use the context define it as well; the linker keeps one.
        emitter.uses_context = True
        text = emitter.emit([GlobalVar(name) for name in names])
        return Code(text, 1)

    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        from tilewright.codegen.source.c.module import registration

        return Code(registration(symbols), 1)

    def write(self, model: WholeModel, target: Target, archive: bool) -> dict[str, Code]:
        from tilewright.codegen.source.c import model as whole

        return whole.archive(model, target) if archive else whole.one_file(model, target)

    def compile(self, code: Code, target: Target) -> bytes:
        from tilewright.codegen.source.c.toolchain import compile_text

        return compile_text(code.text, target, code.effort)

    def object_kind(self, target: Target) -> ObjectKind:
        from tilewright.codegen.source.c.toolchain import object_kind

        return object_kind(target)

    def text(self, code: Code, target: Target, form: str) -> str:
        return code.text

    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> LoadedLibrary:
        return load_objects(objects, exports)

    def companions(self, target: Target) -> list[bytes]:
        return []


BACK_END = C()

__all__ = ["BACK_END", "C"]
