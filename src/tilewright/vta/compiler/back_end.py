"""The code generator of the target kind "ext_dev": kernels are programs of the accelerator of the current environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.codegen.backend import LOOPS, NO_RULES
from tilewright.codegen.device import DeviceBackEnd
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import AttrStmt, IntImm, IterVar, PrimFunc, Var
from tilewright.tir.transform import prim_func_pass
from tilewright.vta.compiler.emitter import kernels_of
from tilewright.vta.compiler.listing import kernels_of as kernels_in
from tilewright.vta.compiler.listing import listing
from tilewright.vta.environment import Environment, get_env
from tilewright.vta.image import image
from tilewright.vta.simulator.description import describe
from tilewright.vta.top.kernels import schedule_kernel


class _Threads(Visitor):
    found = False

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.found |= s.attr_key == "thread_extent"
        self.visit(s.body)


def _as_kernel(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
    """A function as a kernel, which one thread of control runs."""
    look = _Threads()
    look.visit(func.body)
    if look.found:
        raise TVMError("the accelerator has no threads; loops may be bound to virtual threads (cthread, vthread) only")
    axis = IterVar(None, Var("program", "int32"), IterVar.ThreadIndex, "blockIdx.x")
    return func.replace(body=AttrStmt(axis, "thread_extent", IntImm("int32", 1), func.body))


def _environment(target: Target) -> Environment:
    """The current environment. TVMError where the target is the model of another one."""
    env, model = get_env(), str(target.attrs.get("model", "unknown"))
    if model not in ("unknown", env.MODEL):
        raise TVMError(
            f"the target is the accelerator {model}, but the current environment is {env.MODEL}; build inside `with` of its own"
        )
    return env


class AcceleratorBackEnd(DeviceBackEnd):
    kind, forms, loads, takes, rules = "ext_dev", ("vta",), "vta", LOOPS, NO_RULES

    def passes(self, target: Target) -> Sequence[Pass]:
        return [prim_func_pass(_as_kernel, opt_level=0, name="vta.AsKernel")]

    def schedule(self, outputs: Sequence[Any], target: Target) -> Any:
        _environment(target)
        return schedule_kernel(outputs)

    def build(self, mod: IRModule, target: Target) -> Any:
        built = super().build(mod, target)
        built.source.with_imports = True
        return built

    def source(self, kernels: IRModule, target: Target) -> str:
        functions = [f for f in kernels.functions.values() if isinstance(f, PrimFunc)]
        text = listing(kernels_of(functions, _environment(target).configuration))
        flag = PassContext.current().config.get("vta.debug_flag", 0)
        for wanted, is_uop in ((Environment.DEBUG_DUMP_UOP, True), (Environment.DEBUG_DUMP_INSN, False)):
            if flag & wanted:
                lines = [line for line in text.splitlines() if line.startswith("uop") is is_uop or line.startswith(".")]
                print("\n".join(lines))
        return text

    def image(self, text: str, target: Target) -> bytes:
        return image(_environment(target).configuration, kernels_in(text))

    def toolchain(self, target: Target) -> str:
        return toolchain(target)


def toolchain(target: Target) -> str:
    """What code depends on beside the program: every number of the accelerator."""
    return describe(get_env().configuration)


BACK_END = AcceleratorBackEnd()

__all__ = ["BACK_END", "AcceleratorBackEnd", "toolchain"]
