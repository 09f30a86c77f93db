"""Native code of PrimFuncs: LLVM IR as text, compiled and linked in this process through llvmlite."""

from __future__ import annotations

from tilewright.codegen.llvm.build import build
from tilewright.codegen.llvm.functions.module import ModuleEmitter, emit_module, emit_units
from tilewright.codegen.llvm.native.jit import LoadedObjects, load_objects
from tilewright.codegen.llvm.native.target_machine import compile_assembly, compile_object, object_kind

__all__ = [
    "LoadedObjects",
    "ModuleEmitter",
    "build",
    "compile_assembly",
    "compile_object",
    "emit_module",
    "emit_units",
    "load_objects",
    "object_kind",
]
