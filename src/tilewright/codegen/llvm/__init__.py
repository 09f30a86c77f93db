"""PrimFunc to native code: LLVM IR as text, compiled and linked in process through llvmlite."""

from __future__ import annotations

from tilewright.codegen.llvm.build import build
from tilewright.codegen.llvm.jit import LoadedObjects, load_objects
from tilewright.codegen.llvm.machine import compile_assembly, compile_object, object_kind
from tilewright.codegen.llvm.module import ModuleEmitter, emit_module, emit_units

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
