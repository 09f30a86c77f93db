"""Native code of one program: compiled without the cache and on no disk, run on arrays with guards around them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import binding

from tests.generators.case import Case
from tilewright import runtime
from tilewright.codegen.llvm.functions.module import emit_module
from tilewright.codegen.llvm.native.jit import load_objects
from tilewright.codegen.llvm.native.target_machine import initialize, optimise, target_machine
from tilewright.driver import build_lowered
from tilewright.driver.pipeline import host_pipeline
from tilewright.ir import IRModule
from tilewright.target import Target

LEVELS = ("plain", "kernel", "full")
"""No LLVM passes and its fastest selection of instructions; as kernels of models are compiled; as `build` compiles."""

ALIGN, GUARD = 64, 0xA5


class Guarded:
    """A copy of an array, aligned as kernels ask, between bytes that no code may touch."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.room = np.full(array.nbytes + 4 * ALIGN, GUARD, np.uint8)
        self.start = -self.room.ctypes.data % ALIGN + ALIGN
        self.end = self.start + array.nbytes
        self.array = self.room[self.start : self.end].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def intact(self) -> bool:
        return bool((self.room[: self.start] == GUARD).all() and (self.room[self.end :] == GUARD).all())


def run(mod: IRModule, case: Case, seed: int, level: str) -> list[Any]:
    """The arguments after native code of a lowered module ran."""
    args = case.arguments(seed)
    if level == "full":
        return _as_built(mod, args)
    return _as_kernel(mod, args, level)


def symbolic(case: Case) -> bool:
    """Whether a size comes with a buffer, so that the function needs the checks of packed functions."""
    return any([v not in case.func.params for v in case.sizes])


def _as_built(mod: IRModule, args: list[Any]) -> list[Any]:
    tensors = [runtime.array(a) if isinstance(a, np.ndarray) else a for a in args]
    build_lowered(mod, Target("llvm"))["main"](*tensors)
    return [t.numpy() if isinstance(a, np.ndarray) else a for a, t in zip(args, tensors, strict=True)]


def _as_kernel(mod: IRModule, args: list[Any], level: str) -> list[Any]:
    target = Target("llvm")
    text = emit_module(host_pipeline(target, unpacked=True)(mod), target)
    initialize()
    machine = target_machine(target, 0 if level == "plain" else 2)
    module = binding.parse_assembly(text, binding.create_context())
    optimise(module, machine, 1 if level == "plain" else 2)
    code = load_objects([machine.emit_object(module)], ["main"])
    guarded, pointers = [], []
    for a, param in zip(args, mod["main"].params, strict=True):
        g = Guarded(np.asarray(a) if isinstance(a, np.ndarray) else np.asarray(a).astype(str(param.dtype)))
        guarded.append(g)
        pointers.append(g.array.ctypes.data)
    status = code.function("main", ctypes.c_void_p)((ctypes.c_void_p * len(pointers))(*pointers))
    if status:
        raise AssertionError(f"native code returned {status}")
    for index, g in enumerate(guarded):
        if not g.intact:
            raise AssertionError(f"native code wrote outside the array of parameter {index}")
    return [g.array if isinstance(a, np.ndarray) else a for g, a in zip(guarded, args, strict=True)]
