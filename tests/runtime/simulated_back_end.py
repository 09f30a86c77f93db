"""Code for the simulated device: kernels are machine code of this CPU, which the simulator runs thread by thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright import tir
from tilewright.codegen.backend import NO_RULES, Code, back_end_of, register_back_end, remove_back_end
from tilewright.codegen.device import DeviceBackEnd
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.target import Target, register_kind, remove_kind

KIND = "simulated"
TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
HOST = Target("llvm")


class Unbound(Mutator):
    """A kernel's body, in which the indices of block and thread are variables."""

    def __init__(self) -> None:
        self.axes: dict[str, tir.Var] = {}

    @on(tir.AttrStmt)
    def _attr(self, s: tir.AttrStmt) -> Any:
        if s.attr_key != "thread_extent":
            return self.rebuild(s)
        self.axes[s.node.thread_tag] = s.node.var  # type: ignore[union-attr]
        return self.visit(s.body)


def one_thread(func: tir.PrimFunc, mod: Any, ctx: Any) -> tir.PrimFunc:
    """A function that is bound to no thread axis, as a kernel of one thread."""
    look = Unbound()
    look.visit(func.body)
    if look.axes:
        return func
    axis = tir.IterVar(None, tir.Var(TAGS[0], "int32"), tir.IterVar.ThreadIndex, TAGS[0])
    return func.replace(body=tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", 1), func.body))


class Simulated(DeviceBackEnd):
    kind, forms, loads, version = KIND, ("ll",), "object", "1"
    rules = NO_RULES  # threads run one after the other, without barriers

    def passes(self, target: Target) -> Sequence[Pass]:
        return [tir.transform.prim_func_pass(one_thread, opt_level=0, name="simulated.OneThread")]

    def source(self, kernels: IRModule, target: Target) -> str:
        functions: dict[Any, Any] = {}
        for gvar, func in kernels.functions.items():
            look = Unbound()
            body = look.visit(func.body)
            axes = [look.axes.get(tag, tir.Var(tag, "int32")) for tag in TAGS]
            attrs = {"global_symbol": func.attrs["global_symbol"], "calling_conv": "aot"}
            functions[gvar] = tir.PrimFunc((*func.params, *axes), body, None, {}, attrs)
        return back_end_of(HOST).emit(IRModule(functions), HOST).text

    def image(self, text: str, target: Target) -> bytes:
        return back_end_of(HOST).compile(Code(text), HOST)


@contextmanager
def simulated_target() -> Iterator[Target]:
    """The kind of target, as long as it is used."""
    register_kind(KIND, device="vpi", keys=("vpi",))
    register_back_end(Simulated())
    try:
        yield Target(KIND)
    finally:
        remove_back_end(KIND)
        remove_kind(KIND)
