"""Suites that are being read: functions, blocks, loops, and the scopes that stand around statements."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import PrimExpr, Type
from tilewright.script.parser import Frame, Scope, ScriptParser
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Var
from tilewright.tir.stmt import AssertStmt, BufferRegion, For, ForKind, LetStmt, MatchBufferRegion, Stmt


class Loops(Scope):
    """The domain of a `for`: one or several loops."""

    what = "a loop"
    inline = False
    form = "write `for i in` before it and indent them below it"

    def __init__(
        self,
        kind: int,
        domains: list[tuple[PrimExpr, PrimExpr]],
        thread: IterVar | str = "",
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind, self.domains, self.thread, self.annotations = kind, domains, thread, annotations or {}

    def enter(self, p: ScriptParser) -> Any:
        if not p.building:
            raise TVMError(f"a loop is written with `for`, not with `with`: {self.form}")
        self.variables = [Var("v", extent.dtype) for _, extent in self.domains]
        for var, domain in zip(self.variables, self.domains, strict=True):
            p.loop_variable(var, domain)  # type: ignore[attr-defined]
        p.frames.append(InnerFrame("a loop"))
        return self.variables[0] if len(self.variables) == 1 else tuple(self.variables)

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return self.around(self.variables, body)

    def around(self, variables: Sequence[Var], body: Stmt, span: Any = None) -> Stmt:
        """The loops around a body."""
        thread: IterVar | None = None
        if self.kind == ForKind.THREAD_BINDING:
            tag, kind = self.thread, variables[0].dtype
            thread = IterVar(None, Var(tag, kind), IterVar.ThreadIndex, tag) if isinstance(tag, str) else tag
        for var, (low, extent) in reversed(list(zip(variables, self.domains, strict=True))):
            body = For(var, low, extent, self.kind, body, thread, self.annotations, span)
        return body


_TAGS = [f"{kind}.{dim}" for kind in ("threadIdx", "blockIdx", "vthread") for dim in "xyz"] + ["vthread", "cthread"]


def check_tag(tag: str) -> None:
    """Refuses a tag of threads that is nearly, but not quite, a known one."""
    if tag not in _TAGS and (near := difflib.get_close_matches(tag, _TAGS, 3, 0.75)):
        raise ValueError(f"there are no threads {tag!r}; did you mean {' or '.join(near)}?")


class LetScope(Scope):
    """A variable that stands for a value in what follows."""

    what = "a let"

    def __init__(self, var: Var, value: PrimExpr) -> None:
        self.var, self.value = var, value

    def named(self, p: ScriptParser, name: str) -> None:
        self.var = declared_var(p, name, self.var)

    def enter(self, p: ScriptParser) -> Var:
        return self.var

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return LetStmt(self.var, self.value, body)


def declared_var(p: ScriptParser, name: str, var: Var) -> Var:
    """The variable of that name that the text declares before, when it is of the same type; else the given one."""
    known = p.names.get(name)
    if isinstance(known, Var) and hasattr(p, "unbound") and known.dtype == var.dtype == "handle":
        # A pointer of another type that the line before makes.
        if any([made is known for made, _ in p.unbound]):
            p.unbound = [m for m in p.unbound if m[0] is not known]
            return known
    if id(known) in p.declared and isinstance(known, Var) and known.type_annotation == var.type_annotation:
        return known
    return var


class AssertScope(Scope):
    """A condition that must hold for what follows."""

    what = "an assertion"

    def __init__(self, condition: PrimExpr, message: Any) -> None:
        self.condition, self.message = condition, message

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return AssertStmt(self.condition, self.message, body)


class FunctionFrame(Frame):
    """A function that is being read."""

    def __init__(self, name: str, private: bool = False) -> None:
        super().__init__(f"the function {name}")
        self.private = private
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.allocations: list[Buffer] = []
        self.ret_type: Type | None = None


class BlockFrame(Frame):
    """A block that is being read."""

    def __init__(self, name: str, realized: bool) -> None:
        super().__init__(f'the block "{name}"')
        self.name, self.realized = name, realized
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[PrimExpr] = []
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.predicate: PrimExpr | None = None
        self.init: Stmt | None = None
        self.allocations: list[Buffer] = []
        self.matches: list[MatchBufferRegion] = []
        self.annotations: dict[str, Any] = {}


class InnerFrame(Frame):
    """A suite that may run several times or not at all."""
