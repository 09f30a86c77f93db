"""Words for what Python's own syntax says too: conditions, loops, parameters and the name of the function."""

from __future__ import annotations

from typing import Any

from tilewright.ir import PrimExpr, as_prim_expr
from tilewright.script.parser import Frame, Scope, ScriptParser
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.parser.blocks import tir_parser
from tilewright.tir.parser.frames import FunctionFrame
from tilewright.tir.parser.program import TirParser
from tilewright.tir.parser.values import plain
from tilewright.tir.stmt import Evaluate, IfThenElse, Stmt
from tilewright.tir.stmt import While as WhileStmt


class IfFrame(Frame):
    """The two cases of a condition."""

    def __init__(self) -> None:
        super().__init__("a T.If")
        self.cases: dict[str, Stmt] = {}


class IfScope(Scope):
    """`with T.If(condition):` around `with T.Then():` and `with T.Else():`."""

    what = "a T.If"
    inline = False

    def __init__(self, condition: PrimExpr) -> None:
        self.condition, self.frame = condition, IfFrame()

    def enter(self, p: ScriptParser) -> None:
        p.frames.append(self.frame)

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        if not (isinstance(body, Evaluate) and body.span is None):
            raise TVMError("T.If holds only T.Then and T.Else, and this one holds other statements")
        if "T.Then" not in self.frame.cases:
            raise TVMError("T.If needs a T.Then")
        return IfThenElse(self.condition, self.frame.cases["T.Then"], self.frame.cases.get("T.Else"))


class CaseScope(Scope):
    """One case of a T.If."""

    inline = False

    def __init__(self, what: str) -> None:
        self.what = what

    def enter(self, p: ScriptParser) -> None:
        assert isinstance(p, TirParser)
        self.frame: IfFrame = p.frame(self.what, IfFrame)
        if self.what in self.frame.cases:
            raise TVMError(f"this T.If has two {self.what}")
        p.frames.append(Frame(f"a {self.what}"))

    def leave(self, p: ScriptParser, body: Any) -> None:
        self.frame.cases[self.what] = body


class WhileScope(Scope):
    """`with T.While(condition):`."""

    what = "a T.While"
    inline = False

    def __init__(self, condition: PrimExpr) -> None:
        self.condition = condition

    def enter(self, p: ScriptParser) -> None:
        p.frames.append(Frame("a while loop"))

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return WhileStmt(self.condition, body)


def If(condition: Any) -> IfScope:
    """A condition; its cases stand below it, in T.Then and T.Else."""
    return IfScope(as_prim_expr(plain(condition), "the condition of T.If"))


def Then() -> CaseScope:
    """The branch of the enclosing T.If for a true condition."""
    return CaseScope("T.Then")


def Else() -> CaseScope:
    """The branch of the enclosing T.If for a false condition."""
    return CaseScope("T.Else")


def While(condition: Any) -> WhileScope:
    """The body, run while the condition holds."""
    return WhileScope(as_prim_expr(plain(condition), "the condition of T.While"))


def arg(name: str, obj: Any) -> Any:
    """One more parameter of the function: a variable, or a buffer with a handle of its own."""
    p = tir_parser("T.arg")
    frame: FunctionFrame = p.frame("T.arg", FunctionFrame)
    if not isinstance(obj, (Var, Buffer)):
        raise TypeError(f"T.arg takes a variable or a T.Buffer, but was given {type(obj).__name__}: {obj!r}")
    p.add_parameter(frame, name, obj)
    return obj


def func_name(name: str) -> None:
    """The name of the function in its module, and its global_symbol unless it is private."""
    p = tir_parser("T.func_name")
    frame: FunctionFrame = p.frame("T.func_name", FunctionFrame)
    if not isinstance(name, str):
        raise TypeError(f"T.func_name takes a string, but was given {type(name).__name__}: {name!r}")
    p.given_name = name
    if not frame.private:
        frame.attrs["global_symbol"] = name
