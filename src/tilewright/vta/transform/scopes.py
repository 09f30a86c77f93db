"""Scopes: waits of the host, allocations at the start of a scope, addresses for the CPU."""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    Var,
    call_extern,
    decl_buffer,
)
from tilewright.tir.stmt import stmt_seq
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import body_pass
from tilewright.vta.environment import get_env
from tilewright.vta.names import CPU_POINTER, UNIT_SCOPE
from tilewright.vta.transform.calls import has_pragma


class _Waits(Mutator):
    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        made = self.rebuild(s)
        if has_pragma(made, "coproc_sync"):
            return stmt_seq(made.body, Evaluate(Call("int32", "tir.vta.coproc_sync", ())))
        if has_pragma(made, "trim_loop") and isinstance(made.body, For):
            return made.body.replace(extent=IntImm("int32", 2))
        return made


def InjectCoProcSync() -> Pass:
    """Put a wait for the accelerator behind what is under the pragma "coproc_sync"; of a loop under "trim_loop" only two trips are left,
    for measurements."""
    return body_pass("vta.InjectCoProcSync", lambda f: _Waits().visit(f.body))


class _Lift(Mutator):
    """Takes allocations off statements, to be put around the body of the scope."""

    def __init__(self) -> None:
        self.found: list[Allocate] = []
        self.inside: set[Var] = set()
        """Variables of loops of the scope."""

    def scope(self, body: Stmt) -> Stmt:
        outer = self.found, self.inside
        self.found, self.inside = [], set()
        made: Stmt = self.visit(body)
        for allocation in reversed(self.found):
            made = allocation.replace(body=made)
        self.found, self.inside = outer
        return made

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        if any([self.inside.intersection(used_vars(e)) for e in s.extents]):
            return self.rebuild(s)
        self.found.append(s)
        made: Stmt = self.visit(s.body)
        return made

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.inside.add(s.loop_var)
        return self.rebuild(s)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key in ("virtual_thread", "thread_extent"):
            return s.replace(body=self.scope(s.body))
        return self.rebuild(s)


def LiftAllocToScopeBegin() -> Pass:
    """Move allocations to the start of the virtual thread, or of the function, around them."""
    return body_pass("vta.LiftAllocToScopeBegin", lambda f: _Lift().scope(f.body))


class _Addresses(Mutator):
    """Accesses outside of the accelerator's scopes, by addresses that the CPU can use."""

    def __init__(self, func: PrimFunc) -> None:
        self.arguments = {*func.params, *[b.data for b in func.buffer_map.values()]}
        self.pointers: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def _buffer(self, b: Buffer) -> Buffer:
        if b.data not in self.arguments:
            return b
        if b.data not in self.pointers:
            self.pointers[b.data] = Var(f"{b.data.name}_ptr", b.data.type_annotation)
        if b not in self.buffers:
            self.buffers[b] = decl_buffer(
                b.shape,
                b.dtype,
                b.name,
                data=self.pointers[b.data],
                strides=b.strides,
                elem_offset=b.elem_offset,
                scope=b.scope(),
            )
        return self.buffers[b]

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return s if s.attr_key == UNIT_SCOPE else self.rebuild(s)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        made = self.rebuild(e)
        return made.replace(buffer=self._buffer(e.buffer))

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        made = self.rebuild(s)
        return made.replace(buffer=self._buffer(s.buffer))


def _with_addresses(func: PrimFunc) -> Stmt:
    walk = _Addresses(func)
    body: Stmt = walk.visit(func.body)
    for data, pointer in walk.pointers.items():
        found = call_extern("handle", CPU_POINTER, get_env().dev.command_handle, data)
        body = LetStmt(pointer, found, body)
    return body


def CPUAccessRewrite() -> Pass:
    """Let what is outside of the scopes of units, which the CPU does, access arguments by the addresses that VTABufferCPUPtr gives, of
    (commands, data). It is for programs whose CPU shares the arrays of a board; those of `vta.build` have copies for the CPU instead."""
    return body_pass("vta.CPUAccessRewrite", _with_addresses)


__all__ = ["CPUAccessRewrite", "InjectCoProcSync", "LiftAllocToScopeBegin"]
