"""Back end for the target nvptx: PTX for NVIDIA's GPUs by LLVM, without CUDA's compiler."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from tilewright.codegen.device import DeviceBackEnd
from tilewright.codegen.llvm.functions.function import FunctionEmitter
from tilewright.codegen.llvm.functions.module import ModuleEmitter, symbol_of
from tilewright.codegen.llvm.native.target_machine import compile_assembly
from tilewright.codegen.resources import Resources
from tilewright.codegen.source.cuda import ptxas
from tilewright.ir import GlobalVar, IntImm, IRModule
from tilewright.node import Mutator, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import (
    Allocate,
    AttrStmt,
    Call,
    Evaluate,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Stmt,
    Var,
    call_llvm_intrin,
    call_llvm_pure_intrin,
)
from tilewright.tir.transform.function.launch import MIN_BLOCKS, min_blocks
from tilewright.tir.transform.thread.thread_sync import scope_of
from tilewright.tir.transform.types.legalize import without_float8

REGISTERS = {"blockIdx": "ctaid", "threadIdx": "tid"}
SHUFFLES = {"tvm_warp_shuffle": ("idx", 31), "tvm_warp_shuffle_up": ("up", 0), "tvm_warp_shuffle_down": ("down", 31)}
"""Intrinsic -> (kind of LLVM's intrinsic, lowest bits of its last operand)."""
ALL_LANES = IntImm("int32", -1)


class _Threads(Mutator):
    """A kernel's body in which threads are LLVM's intrinsics. shared: its shared memory, (variable, bytes); None for the dynamic one."""

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        self.shared: list[tuple[Var, int | None]] = []
        self.extents: dict[str, Any] = {}
        self.min_blocks = 0

    def _error(self, message: str, node: Any) -> TVMError:
        return TVMError(located(f"PTX code generation of function {self.name!r}: {message}", node))

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == MIN_BLOCKS:
            self.min_blocks = min_blocks(s, self.target)
            return self.visit(s.body)
        if s.attr_key != "thread_extent" or not isinstance(s.node, IterVar):
            return self.rebuild(s)
        tag, var = s.node.thread_tag, s.node.var
        unit, _, axis = tag.partition(".")
        if unit not in REGISTERS:
            raise self._error(f"{tag} is no axis of blocks or threads", s)
        index = call_llvm_pure_intrin("int32", f"llvm.nvvm.read.ptx.sreg.{REGISTERS[unit]}.{axis}")
        whole = self.extents.setdefault(tag, s.value)
        body = self.visit(s.body)
        if isinstance(s.value, IntImm) and isinstance(whole, IntImm) and s.value.value < whole.value:
            body = IfThenElse(var < s.value, body)
        return LetStmt(var, index.astype(var.dtype), body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        scope = scope_of(s.buffer_var)
        if scope in ("local", "global", ""):
            return self.rebuild(s)
        if scope not in ("shared", "shared.dyn"):
            raise self._error(f"LLVM has no storage of scope {scope!r} for GPUs; the target cuda has more", s)
        size: int | None = s.dtype.bytes * s.dtype.lanes
        for extent in s.extents:
            size = size * extent.value if size is not None and isinstance(extent, IntImm) else None
        self.shared.append((s.buffer_var, None if scope == "shared.dyn" else size))
        return self.visit(s.body)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        if not isinstance(s.value, Call) or s.value.intrinsic != "tvm_storage_sync":
            return self.rebuild(s)
        scope = getattr(s.value.args[0], "value", "shared")
        if scope == "warp":
            return Evaluate(call_llvm_intrin("void", "llvm.nvvm.bar.warp.sync", ALL_LANES))
        if scope not in ("shared", "shared.dyn"):
            raise self._error(f"there is no barrier for memory of scope {scope!r}", s)
        return Evaluate(call_llvm_intrin("void", "llvm.nvvm.barrier0"))

    @on(Call)
    def _call(self, e: Call) -> Any:
        if e.intrinsic == "tvm_warp_activemask":
            return ALL_LANES
        new = self.rebuild(e)
        if new.intrinsic not in SHUFFLES:
            return new
        kind, low = SHUFFLES[new.intrinsic]
        _, value, which, width = new.args[:4]
        if str(value.dtype) not in ("int32", "uint32", "float32") or not isinstance(width, IntImm):
            raise self._error(
                f"shuffles take values of 32 bits and a constant width, but these are {value.dtype}, {width}", e
            )
        suffix = "f32" if value.dtype.is_float else "i32"
        last = IntImm("int32", (32 - width.value) << 8 | low)
        return call_llvm_intrin(str(value.dtype), f"llvm.nvvm.shfl.sync.{kind}.{suffix}", ALL_LANES, value, which, last)


class _Kernels(ModuleEmitter):
    """Emits kernels as LLVM IR."""

    def __init__(self, kernels: IRModule, target: Target) -> None:
        super().__init__(kernels, assembly_target(target))
        self.gpu_target = target

    def _function(self, gvar: GlobalVar, func: PrimFunc) -> None:
        name = symbol_of(gvar, func)
        func = without_float8(func)
        threads = _Threads(name, self.gpu_target)
        body = threads.visit(func.body)
        emitter = FunctionEmitter(self, name)
        emitter.frame.result = "void"
        emitter.declare_params(func)
        for var, size in threads.shared:
            place = "@" + self.fresh(f"{name}_{re.sub(r'[^A-Za-z0-9_]', '_', var.name)}")
            kind = "external" if size is None else "internal"
            value = "" if size is None else " undef"
            self.globals.append(f"{place} = {kind} addrspace(3) global [{size or 0} x i8]{value}, align 16")
            emitter.variables.pointers[var] = (f"addrspacecast (ptr addrspace(3) {place} to ptr)", 16)
        emitter.body(body)
        attributes = " ".join(["nounwind", *_bounds(threads)])
        self.functions.append(emitter.text(f"define ptx_kernel void @{name}", attributes))


def _bounds(threads: _Threads) -> list[str]:
    """The attributes that say how many threads a block has, and how many blocks shall run at once: the assembler gives each thread no more
    registers than there are for all."""
    found = [threads.extents.get(f"threadIdx.{axis}", IntImm("int32", 1)) for axis in "xyz"]
    if not all([isinstance(extent, IntImm) for extent in found]):
        return []
    least = [f'"nvvm.minctasm"="{threads.min_blocks}"'] if threads.min_blocks else []
    return [f'"nvvm.maxntid"="{",".join([str(extent.value) for extent in found])}"', *least]


def assembly_target(target: Target) -> Target:
    """LLVM's target for a GPU."""
    arch = target.attrs.get("mcpu") or target.attrs.get("arch") or "sm_70"
    return Target(f"llvm -mtriple=nvptx64-nvidia-cuda -mcpu={arch}")


def emit_ir(kernels: IRModule, target: Target) -> str:
    """LLVM IR of kernels. Raises TVMError if they call functions, which no GPU has."""
    text = _Kernels(kernels, target).emit()
    called = sorted(set(re.findall(r"^declare .*@\"?(?!llvm\.)([\w.]+)", text, re.MULTILINE)))
    if called:
        raise TVMError(
            f"PTX code generation: the kernels call {', '.join(called)}, and a GPU has no such functions; use the target cuda"
        )
    return text


class NvptxBackEnd(DeviceBackEnd):
    """Emits PTX."""

    kind: ClassVar[str] = "nvptx"
    forms: ClassVar[tuple[str, ...]] = ("ptx",)
    loads: ClassVar[str] = "ptx"

    def source(self, kernels: IRModule, target: Target) -> str:
        return compile_assembly(emit_ir(kernels, target), assembly_target(target), 3)

    def resources(self, text: str, target: Target) -> dict[str, Resources] | None:
        return ptxas.resources(text, target.gpu.arch)


BACK_END = NvptxBackEnd()

__all__ = ["BACK_END", "NvptxBackEnd", "emit_ir"]
