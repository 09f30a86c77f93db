"""Passes that select and mark functions (targets, entry points, filters), and a pass that removes assertions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo, module_pass
from tilewright.node import Mutator, on
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AssertStmt, Stmt
from tilewright.tir.transform.base import body_pass, prim_func_pass

if TYPE_CHECKING:
    from tilewright.target.target import Target


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """Apply a Python function to every PrimFunc of a module."""
    made: Pass = prim_func_pass(lambda func, mod, ctx: ftransform(func), name="tir.Apply")
    return made


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """Keep the functions for which the condition holds."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_functions({g: f for g, f in mod.functions.items() if not isinstance(f, PrimFunc) or fcond(f)})

    made: Pass = module_pass(run, opt_level=0, name="tir.Filter")
    return made


def BindTarget(target: Target | str) -> Pass:
    """Set the target of functions that have none."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func if "target" in func.attrs else func.with_attr("target", target)

    made: Pass = prim_func_pass(run, name="tir.BindTarget")
    return made


def AnnotateEntryFunc() -> Pass:
    """Mark the entry function: the only function of a module, or the only one with a global symbol."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        funcs = [(g, f) for g, f in mod.functions.items() if isinstance(f, PrimFunc)]
        exposed = funcs if len(funcs) == 1 else [(g, f) for g, f in funcs if "global_symbol" in f.attrs]
        if len(exposed) != 1 or "tir.is_entry_func" in exposed[0][1].attrs:
            return mod
        gvar, func = exposed[0]
        return mod.with_functions({**mod.functions, gvar: func.with_attr("tir.is_entry_func", True)})

    return Pass(PassInfo(0, "tir.AnnotateEntryFunc"), run)


class _SkipAsserts(Mutator):
    @on(AssertStmt)
    def _assert(self, s: AssertStmt) -> Stmt:
        return self.visit(s.body)


def SkipAssert() -> Pass:
    """Remove assertions from functions."""
    return body_pass("SkipAssert", lambda f: _SkipAsserts().visit(f.body), gives=("no_asserts",))
