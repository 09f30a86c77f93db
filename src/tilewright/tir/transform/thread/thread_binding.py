"""UnifyThreadBinding and related passes: turn loops that are bound to thread axes into one launch of the kernel."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import any_node, on
from tilewright.support.errors import TVMError
from tilewright.tir.analysis.flow import Accesses
from tilewright.tir.expr import IterVar, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, For, ForKind, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass
from tilewright.tir.transform.block.compact import SEEN_BY
from tilewright.tir.transform.thread.thread_memory import need_own_memory


def is_vthread(tag: str) -> bool:
    """Whether an axis is an axis of virtual threads."""
    return tag.split(".")[0] == "vthread"


class _Unify(BufferMutator):
    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, PrimExpr] = {}
        self.launch: list[tuple[IterVar, PrimExpr]] = []
        self.by_tag: dict[str, tuple[IterVar, PrimExpr]] = {}
        self.inside = False
        self.analyzer = Analyzer()

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    def _axis(self, old: IterVar, extent: PrimExpr) -> IterVar:
        """The kernel's axis of a tag, made for the first loop that is bound to it."""
        tag = old.thread_tag
        found = self.by_tag.get(tag)
        if found is None:
            found = self.by_tag[tag] = (_own_axis(old, extent), extent)
            self.launch.append(found)
        elif not self.analyzer.can_prove_equal(found[1], extent.astype(found[1].dtype)):
            raise TVMError(
                f"UnifyThreadBinding: loops bound to {tag} in one kernel have the extents {found[1]} and {extent};"
                " all loops bound to an axis must have one extent"
            )
        return found[0]

    def _within(self, make: Any) -> Stmt:
        """The result of `make`, inside the launch attributes if this is the outermost bound loop."""
        if self.inside:
            out: Stmt = make()
            return out
        self.inside = True
        self.launch, self.by_tag = [], {}
        body: Stmt = make()
        for axis, extent in reversed(self.launch):
            body = AttrStmt(axis, "thread_extent", extent, body)
        self.inside = False
        return body

    @on(For)
    def _for(self, s: For) -> Stmt:
        if s.kind != ForKind.THREAD_BINDING or s.thread_binding is None:
            return self.rebuild(s)
        old, virtual = s.thread_binding, is_vthread(s.thread_binding.thread_tag)

        def make() -> Stmt:
            low, extent = self.visit(s.min), self.visit(s.extent)
            axis = _own_axis(old, extent) if virtual else self._axis(old, extent)
            value = axis.var.astype(s.loop_var.dtype)
            self.env[s.loop_var] = value if isinstance(low, IntImm) and not low.value else value + low
            self.env[old.var] = axis.var
            body: Stmt = self.visit(s.body)
            for name, note in s.annotations.items():
                if name.startswith("pragma_"):
                    body = AttrStmt(axis, name, StringImm(note) if isinstance(note, str) else note, body)
            # One real thread runs all virtual threads side by side, so they do not run statements outside of the loop.
            return AttrStmt(axis, "virtual_thread", extent, body) if virtual else body

        return make() if virtual else self._within(make)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != "thread_extent" or not isinstance(s.node, IterVar) or is_vthread(s.node.thread_tag):
            value, body = self.visit(s.value), self.visit(s.body)
            return s if value is s.value and body is s.body else AttrStmt(s.node, s.attr_key, value, body, s.span)
        old = s.node

        def make() -> Stmt:
            axis = self._axis(old, self.visit(s.value))
            self.env[old.var] = axis.var.astype(old.var.dtype)
            out: Stmt = self.visit(s.body)
            return out

        return self._within(make)


def _own_axis(old: IterVar, extent: PrimExpr) -> IterVar:
    tag = old.thread_tag
    return IterVar(None, Var(old.var.name or tag.replace(".", "_"), extent.dtype), old.iter_type, tag)


def _unified(func: PrimFunc) -> Stmt:
    need_own_memory(func)
    out: Stmt = _Unify().visit(func.body)
    return out


def UnifyThreadBinding() -> Pass:
    """Replace loops that are bound to thread axes by one attribute per axis around the kernel. Loops of virtual threads
    become attributes in their place.

    Raises TVMError if the threads of a kernel would not compute what the loops computed: if a thread reads memory that
    is private to another one, or if every thread would do an update that was done once.
    """
    return body_pass("UnifyThreadBinding", _unified, gives=("no_thread_loops",))


class _Serial(BufferMutator):
    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        return new.replace(kind=ForKind.SERIAL) if s.kind == ForKind.PARALLEL else new


def ConvertForLoopsToSerial() -> Pass:
    """Convert parallel loops to serial ones."""
    return body_pass("ConvertForLoopsToSerial", lambda f: _Serial().visit(f.body), gives=("no_parallel_loops",))


class _LiftBound(BufferMutator):
    """Moves bound loops out of serial loops around them, if the serial loop has no other statements."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.accesses = Accesses(func)

    def _may_change_places(self, serial: For, bound: For) -> bool:
        """Whether each thread may run the whole serial loop: it reads only its own data, or data behind a barrier."""
        binding = bound.thread_binding
        tag = "" if binding is None else binding.thread_tag
        return self.accesses.apart(
            serial.loop_var,
            bound.loop_var,
            lambda b: tag.startswith(SEEN_BY.get(b.scope().split(".")[0], ("none",))) and tag.startswith("threadIdx"),
        )

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        if new.kind == ForKind.THREAD_BINDING or type(new.body) is not For or new.body.kind != ForKind.THREAD_BINDING:
            return new
        inner = new.body
        if _uses(inner.min, new.loop_var) or _uses(inner.extent, new.loop_var) or not self._may_change_places(s, inner):
            return new
        return inner.replace(body=self._for(new.replace(body=inner.body)))


def _uses(e: PrimExpr, var: Var) -> bool:
    return any_node(e, lambda node: node is var)


def LiftThreadBinding() -> Pass:
    """Exchange a serial loop with the bound loop directly inside it, if no thread waits for another."""

    def run(func: PrimFunc) -> Stmt:
        out: Stmt = _LiftBound(func).visit(func.body)
        return out

    return body_pass("LiftThreadBinding", run)
