"""ConvertSSA: gives every variable of a function a single binding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir.transform import Pass
from tilewright.node import mutate_tuple, on
from tilewright.tir.expr import BufferLoad, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AllocateConst, BufferStore, For, LetStmt, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import prim_func_pass

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


class _Rename(BufferMutator):
    """Renames second bindings of a variable, with the buffers on renamed storage."""

    def __init__(self, bound: set[Var]) -> None:
        super().__init__()
        self.bound = bound
        self.env: dict[Var, Var] = {}

    def _bind(self, var: Var) -> Var:
        if var not in self.bound:
            self.bound.add(var)
            return var
        return var.copy_with_suffix("")

    @on(Var)
    def _var(self, v: Var) -> Var:
        return self.env.get(v, v)

    def _with(self, var: Var, new: Var, s: Any, body: Any) -> Any:
        """The body with the variable renamed. Renamed buffers hold only in it."""
        if new is var:
            old = self.env.pop(var, None)
            out = self.visit(body)
            if old is not None:
                self.env[var] = old
            return out
        old_env, old_buffers = self.env.get(var), self.buffers
        self.env[var] = new
        self.buffers = {} if var.dtype.code == "handle" else old_buffers
        out = self.visit(body)
        self.buffers = old_buffers
        if old_env is None:
            del self.env[var]
        else:
            self.env[var] = old_env
        return out

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        var = self._bind(s.loop_var)
        body = self._with(s.loop_var, var, s, s.body)
        if low is s.min and extent is s.extent and body is s.body and var is s.loop_var:
            return s
        return For(var, low, extent, s.kind, body, s.thread_binding, s.annotations, s.span)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Any:
        value = self.visit(s.value)
        var = self._bind(s.var)
        body = self._with(s.var, var, s, s.body)
        return s.replace(var=var, value=value, body=body)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> Stmt:
        extents = mutate_tuple(self.visit, s.extents)
        var = self._bind(s.buffer_var)
        body = self._with(s.buffer_var, var, s, s.body)
        return s.replace(buffer_var=var, extents=extents, body=body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        buffer = self.visit(e.buffer) if e.buffer.data in self.env else e.buffer
        indices = mutate_tuple(self.visit, e.indices)
        predicate = None if e.predicate is None else self.visit(e.predicate)
        if buffer is e.buffer and indices is e.indices and predicate is e.predicate:
            return e
        return BufferLoad(buffer, indices, predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        buffer = self.visit(s.buffer) if s.buffer.data in self.env else s.buffer
        indices, value = mutate_tuple(self.visit, s.indices), self.visit(s.value)
        predicate = None if s.predicate is None else self.visit(s.predicate)
        if buffer is s.buffer and indices is s.indices and value is s.value and predicate is s.predicate:
            return s
        return BufferStore(buffer, value, indices, predicate, s.span)


def convert_ssa(func: PrimFunc) -> PrimFunc:
    """The function with a single binding for every variable."""
    return func.replace(body=_Rename(set(func.params)).visit(func.body))


def ConvertSSA() -> Pass:
    """Rename variables that are bound more than once, so that each has one binding."""
    made: Pass = prim_func_pass(lambda func, mod, ctx: convert_ssa(func), name="tir.ConvertSSA", gives=("ssa",))
    return made
