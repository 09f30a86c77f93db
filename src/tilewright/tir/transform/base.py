"""What the passes share: the decorator for passes on PrimFuncs and small helpers on statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass, function_pass_of
from tilewright.node import Visitor, on
from tilewright.tir.expr import BufferLoad, Call
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Evaluate, SeqStmt, Stmt


class PrimFuncPass(Pass):
    """A pass on PrimFuncs, as `prim_func_pass` makes it."""


prim_func_pass = function_pass_of(PrimFunc, PrimFuncPass)
prim_func_pass.__doc__ = (
    "Makes a pass of `f(func, mod, ctx) -> func`, or a pass factory of a class with `transform_function`."
)


def body_pass(
    name: str, rewrite: Callable[[PrimFunc], Stmt], needs: tuple[str, ...] = (), gives: tuple[str, ...] = ()
) -> Pass:
    """A pass that gives each function a new body."""

    def run(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return func.replace(body=rewrite(func))

    made: Pass = prim_func_pass(run, name=f"tir.{name}", needs=needs, gives=gives)
    return made


def is_no_op(s: Stmt | None) -> bool:
    """Whether a statement does nothing."""
    if s is None:
        return True
    if type(s) is Evaluate:
        return isinstance(s.value, IntImm)
    return type(s) is SeqStmt and all([is_no_op(x) for x in s.seq])


def call_name(e: PrimExpr) -> str:
    """The name of the intrinsic that a call applies, without "tir."; "" for anything else."""
    if type(e) is not Call:
        return ""
    name: str = getattr(e.op, "name", "")
    return name.removeprefix("tir.")


class _Loads(Visitor):
    def __init__(self) -> None:
        self.found = False

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.found = True


def has_load(e: PrimExpr) -> bool:
    """Whether an expression reads a buffer."""
    walk = _Loads()
    walk.visit(e)
    return walk.found


def is_true(e: Any) -> bool:
    """Whether an expression is the constant true."""
    return isinstance(e, IntImm) and e.value != 0
