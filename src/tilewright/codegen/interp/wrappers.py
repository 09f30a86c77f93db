"""Packed functions that call kernels of another back end. They check their arguments, and run in the interpreter."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.codegen.backend import AOT
from tilewright.ir import DataType, GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Sequential
from tilewright.node import post_order_visit
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Buffer, Call, Evaluate, PrimFunc, Var
from tilewright.tir.arithmetic import cast_to, multiply
from tilewright.tir.op import handle_add_byte_offset
from tilewright.tir.transform import AnnotateEntryFunc, BindTarget, ExposeEntryFunc, MakePackedAPI

KERNEL_SUFFIX = "_kernel"


class Wrapped(NamedTuple):
    """kernels: the module, whose exported functions are kernels; wrappers: packed functions that call these kernels, which the module
    declares; names, symbols: those of the packed functions."""

    kernels: IRModule
    wrappers: IRModule
    names: list[str]
    symbols: list[str]


def wrapped(mod: IRModule, target: Target) -> Wrapped:
    """The exported functions of a module as kernels, with packed functions that call them. Dynamic sizes, which the shapes of tensors
    give, are additional parameters of a kernel."""
    kernels, wrappers, declared = dict(mod.functions), dict[GlobalVar, PrimFunc](), dict[GlobalVar, PrimFunc]()
    exported = [g for g, f in mod.functions.items() if isinstance(f, PrimFunc) and "global_symbol" in f.attrs]
    for gvar in exported:
        func = mod[gvar]
        assert isinstance(func, PrimFunc)
        _refuse_values(func)
        symbol = str(func.attrs["global_symbol"])
        attrs = {"global_symbol": symbol + KERNEL_SUFFIX, "calling_conv": AOT}
        sizes = sizes_of(func)
        kernels[gvar] = func.replace(params=(*func.params, *sizes), attrs={**func.attrs, **attrs})
        called = GlobalVar(symbol + KERNEL_SUFFIX)
        body = Evaluate(Call(DataType("int32"), called, [*_arguments(func), *_told(func, sizes)]))
        wrappers[GlobalVar(symbol)] = PrimFunc(func.params, body, None, func.buffer_map, {"global_symbol": symbol})
        params = [Var(p.name, "handle" if p in func.buffer_map else p.dtype) for p in (*func.params, *sizes)]
        declared[called] = PrimFunc(params, Evaluate(IntImm("int32", 0)), None, {}, attrs)
    passes = [BindTarget(target), AnnotateEntryFunc(), MakePackedAPI(), ExposeEntryFunc()]
    packed = Sequential(passes, name="tir.wrappers")(IRModule(wrappers))
    symbols = [str(f.attrs["global_symbol"]) for f in packed.functions.values() if isinstance(f, PrimFunc)]
    names = [g.name_hint for g in packed.functions]
    return Wrapped(mod.with_functions(kernels), packed.with_functions({**packed.functions, **declared}), names, symbols)


def sizes_of(func: PrimFunc) -> list[Var]:
    """The variables in shapes, strides and offsets of parameters, except those that are parameters."""
    found: dict[Var, None] = {}

    def look(e: object) -> None:
        if isinstance(e, Var) and e not in func.params:
            found[e] = None

    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                post_order_visit(e, look)
    return list(found)


def _arguments(func: PrimFunc) -> list[PrimExpr]:
    """The arguments for the parameters of a kernel; for tensors the address of the first element."""
    return [_address(func.buffer_map[p]) if p in func.buffer_map else p for p in func.params]


def _address(buffer: Buffer) -> PrimExpr:
    offset = buffer.elem_offset
    if not isinstance(offset, Var):
        return buffer.data
    size = IntImm("int64", buffer.dtype.bytes)
    moved: PrimExpr = handle_add_byte_offset(buffer.data, multiply(cast_to(offset, size.dtype), size))
    return moved


def _told(func: PrimFunc, sizes: list[Var]) -> list[PrimExpr]:
    """The values of the sizes for a kernel. Offsets are 0, since the addresses include them."""
    offsets = {b.elem_offset for b in func.buffer_map.values() if isinstance(b.elem_offset, Var)}
    return [IntImm(v.dtype, 0) if v in offsets else v for v in sizes]


def _refuse_values(func: PrimFunc) -> None:
    def look(e: object) -> None:
        if isinstance(e, Call) and getattr(e.op, "name", "") == "tir.ret":
            raise TVMError(
                f"{func.attrs['global_symbol']} returns a value, but kernels return only error codes: write the value to a tensor"
            )

    post_order_visit(func.body, look)
