"""Back end for the target llvm. The code generator is imported at the first compilation, so models from the cache run without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tilewright.codegen.backend import BackEnd, Code
from tilewright.codegen.llvm.native.jit import LoadedObjects, load_objects
from tilewright.codegen.llvm.native.start import at_start
from tilewright.codegen.llvm.native.target_machine import compile_assembly, compile_object, object_kind
from tilewright.codegen.llvm.native.tiles import permission
from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.transform import Pass
from tilewright.runtime.linking.symbols import CONTEXT
from tilewright.support.object_kind import ObjectKind
from tilewright.target import Target


class LLVM(BackEnd):
    """Emits LLVM IR as text, and compiles and links it in this process through llvmlite."""

    kind: ClassVar[str] = "llvm"
    forms: ClassVar[tuple[str, ...]] = ("ll", "s", "asm")

    def passes(self, target: Target) -> Sequence[Pass]:
        from tilewright.tir.transform import FuseActivations

        return [FuseActivations()]

    def build(self, mod: IRModule, target: Target) -> Any:
        from tilewright.codegen.llvm.build import build

        return build(mod, target)

    def emit(self, mod: IRModule, target: Target) -> Code:
        from tilewright.codegen.llvm.functions.module import emit_module
        from tilewright.codegen.llvm.native.effort import NONE, WHOLE, effort

        # Scheduled kernels need no LLVM passes. Kernels with scalar loops get the whole pipeline.
        return Code(emit_module(mod, target), WHOLE if effort(mod) == WHOLE else NONE)

    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        from tilewright.codegen.llvm.functions.context import context_definition
        from tilewright.codegen.llvm.functions.module import ModuleEmitter

        text = ModuleEmitter(mod, target).emit([GlobalVar(name) for name in names]) if names else ""
        # Kernels that use the context define it too; the linker keeps one.
        return Code(text if CONTEXT in text else text + context_definition(target))

    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        lines = ["declare i32 @TVMBackendRegisterSystemLibSymbol(ptr, ptr)"]
        calls = []
        for i, name in enumerate(dict.fromkeys(symbols)):
            lines.append(f'@"{name}" = external global i8')
            lines.append(f'@name{i} = private constant [{len(name) + 1} x i8] c"{name}\\00"')
            calls.append(f'  %r{i} = call i32 @TVMBackendRegisterSystemLibSymbol(ptr @name{i}, ptr @"{name}")')
        lines += ["define internal void @register() {", *calls, "  ret void", "}"]
        return Code("\n".join(lines) + "\n" + at_start("register", target.triple, target.cpu.pointer_bits // 8))

    def lined(self, mod: IRModule, target: Target, file: str) -> tuple[str, bytes]:
        from tilewright.codegen.llvm.build import lined

        return lined(mod, target, self.emit(mod, target).effort, file)

    def compile(self, code: Code, target: Target) -> bytes:
        return compile_object(code.text, target, code.effort)

    def object_kind(self, target: Target) -> ObjectKind:
        return object_kind(target)

    def text(self, code: Code, target: Target, form: str) -> str:
        return code.text if form == "ll" else compile_assembly(code.text, target, code.effort)

    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> LoadedObjects:
        return load_objects(objects, exports)

    def companions(self, target: Target) -> list[bytes]:
        return permission(target)


BACK_END = LLVM()

__all__ = ["BACK_END", "LLVM"]
