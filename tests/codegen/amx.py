"""Runs kernels for AMX on machines without it: tile instructions become calls of functions that do what they do (the interpreter's model
of the registers), and everything else is compiled for this machine."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import Any
from unittest import mock

import numpy as np

from tilewright.codegen.backend import Code
from tilewright.codegen.interp.tile_registers import TILE_INSTRUCTIONS, Tiles
from tilewright.codegen.interp.values import RawPointer
from tilewright.codegen.llvm.backend import LLVM
from tilewright.codegen.llvm.functions.module import emit_module
from tilewright.codegen.llvm.native.jit import load_objects
from tilewright.codegen.llvm.native.target_machine import compile_assembly, compile_object
from tilewright.driver import host_pipeline, lower_module
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.target.cpu import host_cpu
from tilewright.tir import PrimFunc

SAPPHIRE = "llvm -mcpu=sapphirerapids"

_TYPES: dict[str, Any] = {"ptr": ctypes.c_void_p, "i8": ctypes.c_int8, "i64": ctypes.c_int64}
_threads: dict[int, Tiles] = {}
errors: list[str] = []
"""What went wrong in calls: exceptions cannot leave them."""


def _call(method: str, types: tuple[str, ...]) -> Any:
    def run(*args: int) -> None:
        tiles = _threads.setdefault(threading.get_ident(), Tiles())
        try:
            getattr(tiles, method)(*[RawPointer(a) if t == "ptr" else a for a, t in zip(args, types, strict=True)])
        except Exception as error:
            errors.append(str(error))

    return ctypes.CFUNCTYPE(None, *[_TYPES[t] for t in types])(run)


_DECLARATION = re.compile(r"declare void @(llvm\.x86\.\w+)\(([^)]*)\)")
_known: dict[str, Any] = {}
"""Functions by the symbols that call them."""


_DOT = """
define internal <{n} x i32> @emulated_dot{n}(<{n} x i32> %sum, <{m} x i8> %a, <{m} x i8> %b) {{
  %wide.a = zext <{m} x i8> %a to <{m} x i32>
  %wide.b = sext <{m} x i8> %b to <{m} x i32>
  %products = mul <{m} x i32> %wide.a, %wide.b
{parts}
  %low = add <{n} x i32> %part0, %part1
  %high = add <{n} x i32> %part2, %part3
  %four = add <{n} x i32> %low, %high
  %all = add <{n} x i32> %sum, %four
  ret <{n} x i32> %all
}}
"""
"""VNNI's instruction of n lanes, unsigned bytes with signed ones, for processors that may not have it."""
_NARROW = """
define linkonce_odr hidden bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %rounded = add i32 %bits, %half
  %shifted = lshr i32 %rounded, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, 0.0
  %chosen = select i1 %nan, i32 %quiet, i32 %shifted
  %short = trunc i32 %chosen to i16
  %narrow = bitcast i16 %short to bfloat
  ret bfloat %narrow
}
"""
"""float32 to bfloat16, to nearest even: LLVM calls it where the processor has no instruction for it."""


def _dot(lanes: int) -> str:
    parts = []
    for k in range(4):
        places = ", ".join([f"i32 {4 * i + k}" for i in range(lanes)])
        parts.append(
            f"  %part{k} = shufflevector <{4 * lanes} x i32> %products, <{4 * lanes} x i32> poison, <{lanes} x i32> <{places}>"
        )
    return _DOT.format(n=lanes, m=4 * lanes, parts="\n".join(parts))


def emulated(text: str) -> tuple[str, dict[str, int]]:
    """LLVM IR whose tile instructions are calls, and the addresses of what is called. Other instructions that the processor at
    hand may lack are written out."""
    for lanes in sorted({int(bits) // 32 for bits in re.findall(r"@llvm\.x86\.avx512\.vpdpbusd\.(\d+)\(", text)}):
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        text = re.sub(rf"declare [^\n]*@{re.escape(name)}\([^\n]*\n", "", text).replace(
            f"@{name}(", f"@emulated_dot{lanes}("
        )
        text += _dot(lanes)
    if "bfloat" in text:
        text += _NARROW
    imports: dict[str, int] = {}
    for name, types in _DECLARATION.findall(text):
        if name not in TILE_INSTRUCTIONS:
            continue
        symbol = "emulated_" + name.rsplit(".", 1)[1]
        if symbol not in _known:
            _known[symbol] = _call(TILE_INSTRUCTIONS[name], tuple([t.strip() for t in types.split(",") if t.strip()]))
        imports[symbol] = ctypes.cast(_known[symbol], ctypes.c_void_p).value or 0
        text = text.replace(f"@{name}(", f"@{symbol}(")
    return text, imports


def ir(func: PrimFunc, target: Target) -> str:
    """The LLVM IR of a function whose parameters are pointers to data."""
    plain = func.with_attr("global_symbol", "kernel")
    with target:
        lowered = host_pipeline(target, unpacked=True)(lower_module(IRModule.from_expr(plain)))
        return str(emit_module(lowered, target))


class _NoCache:
    """Stands for the on-disk cache: what is compiled for emulation must not be found by others."""

    @staticmethod
    def key(*parts: str) -> str:
        return ""

    @staticmethod
    def get(key: str) -> None:
        return None

    @staticmethod
    def put(key: str, value: bytes) -> None:
        pass


def build_emulated(mod: IRModule, target: str = SAPPHIRE, config: dict[str, Any] | None = None) -> tuple[Any, str]:
    """A model built for `target` and loaded here, its tiles emulated, and the assembly of all kernels as it is for the target."""
    from tilewright import relay
    from tilewright.ir.transform import PassContext
    from tilewright.relay.backend import executor_factory
    from tilewright.relay.backend.kernels import machine_code

    texts: list[str] = []

    def compiled(code: Code, target: Target) -> bytes:
        texts.append(str(compile_assembly(code.text, target, code.effort, [])))
        return compile_object(emulated(code.text)[0], Target("llvm"))

    def loaded(_: LLVM, objects: Any, exports: Any) -> Any:
        known = {s: ctypes.cast(f, ctypes.c_void_p).value or 0 for s, f in _known.items()}
        return load_objects(objects, exports, known)

    errors.clear()
    with (
        mock.patch.object(machine_code, "disk", _NoCache),
        mock.patch.object(machine_code, "compile_code", compiled),
        mock.patch.object(LLVM, "load", loaded),
        mock.patch.object(executor_factory, "need_host", lambda *_: None),
        PassContext(opt_level=3, config=config or {}),
    ):
        library = relay.build(mod, target)
        library.metadata["target"]["features"] = []
        assert library.lib is not None
    return library, "\n".join(texts)


def aligned(a: np.ndarray) -> np.ndarray:
    """A copy where kernels expect their data: at a multiple of 64 bytes."""
    room = np.zeros(a.nbytes + 64, np.uint8)
    at = -room.ctypes.data % 64
    copy = room[at : at + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy


def run_emulated(func: PrimFunc, target: Target, *args: np.ndarray) -> None:
    """Runs a kernel for `target` on arrays, in place: its tiles emulated, the rest as this machine does it."""
    text, imports = emulated(ir(func, target))
    objects = load_objects([compile_object(text, Target("llvm"), 2, [])], ["kernel"], imports)
    given = [aligned(a) for a in args]
    pointers = (ctypes.c_void_p * len(args))(*[a.ctypes.data for a in given])
    errors.clear()
    code = objects.function("kernel", ctypes.c_void_p)(pointers)
    assert code == 0
    assert not errors, errors[0]
    for a, b in zip(args, given, strict=True):
        a[...] = b


def assembly(func: PrimFunc, target: Target) -> str:
    """What LLVM makes of a kernel for `target`."""
    return str(compile_assembly(ir(func, target), target, 2, []))


__all__ = ["SAPPHIRE", "assembly", "emulated", "host_cpu", "ir", "run_emulated"]
