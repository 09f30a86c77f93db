"""InjectVirtualThread: interleaves virtual threads, statement by statement, in the real thread that runs them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, any_node, mutate_tuple, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, multiply
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa
from tilewright.tir.transform.thread.thread_binding import is_vthread

UNROLL_UP_TO = 16
"""The largest number of virtual threads for which statements are unrolled; for more it makes a loop."""


def _depends(e: Any, names: Container[Var]) -> bool:
    """Whether an expression depends on the virtual thread: on its variable, or on storage with a copy for each thread."""
    return any_node(e, lambda x: (x.buffer.data if isinstance(x, BufferLoad) else x) in names)


class _Touched(Visitor):
    """Collects inner storage that differs between virtual threads, and variables bound to values that differ."""

    def __init__(self, var: Var) -> None:
        self.names = {var}
        self.inside: dict[Var, Allocate] = {}
        self.control = 0
        self.grown = True

    def differs(self, e: Any) -> bool:
        return _depends(e, self.names)

    def _add(self, v: Var) -> None:
        if v not in self.names:
            self.names.add(v)
            self.grown = True

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        self.inside[s.buffer_var] = s
        self.visit(s.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        data = s.buffer.data
        if data in self.inside and (self.control or self.differs(s.value) or any([self.differs(i) for i in s.indices])):
            self._add(data)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        # A call may write through any of its pointer arguments.
        if self.control or self.differs(s.value):
            for data in self.inside:
                if _depends(s.value, {data}):
                    self._add(data)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        if self.differs(s.value):
            self._add(s.var)
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        self._under(s, self.differs(s.min) or self.differs(s.extent))

    @on(IfThenElse, While)
    def _condition(self, s: IfThenElse | While) -> None:
        self._under(s, self.differs(s.condition))

    def _under(self, s: Stmt, differs: bool) -> None:
        self.control += differs
        self.visit_children(s)
        self.control -= differs


class _Inject(Mutator):
    """Injects one virtual axis: repeats the statements that depend on it, and copies the storage that does."""

    def __init__(self, var: Var, count: int, touched: _Touched) -> None:
        self.var, self.count, self.touched = var, count, touched
        self.sizes: dict[Var, PrimExpr] = {}
        self.flat: dict[Buffer, Buffer] = {}

    # --- expressions

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Buffer:
        if b.data not in self.sizes:
            return b
        if len(b.shape) != 1:
            raise TVMError(
                located(
                    f"InjectVirtualThread: buffer {b.name} has {len(b.shape)} dimensions; run FlattenBuffer first", b
                )
            )
        if b not in self.flat:
            self.flat[b] = b.replace(shape=(multiply(b.shape[0], IntImm(b.shape[0].dtype, self.count)),))
        return self.flat[b]

    def _shifted(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        new = mutate_tuple(self.visit, indices)
        if b.data not in self.sizes:
            return new
        at = new[0]
        scalar = at.dtype.element
        by = multiply(self.var.astype(scalar), b.shape[0].astype(scalar))
        if isinstance(at, Ramp):
            return (Ramp(add(at.base, by), at.stride, at.lanes),)
        if at.dtype.lanes > 1:
            from tilewright.tir.expr import Broadcast

            by = Broadcast(by, at.dtype.lanes)
        return (add(at, by),)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        buffer, indices = self._buffer(e.buffer), self._shifted(e.buffer, e.indices)
        predicate = None if e.predicate is None else self.visit(e.predicate)
        same = buffer is e.buffer and indices is e.indices and predicate is e.predicate
        return e if same else BufferLoad(buffer, indices, predicate, e.span)

    @on(Call)
    def _call(self, e: Call) -> Any:
        if call_name(e) == "tvm_access_ptr" and e.args[1] in self.sizes:
            kind, data, offset, *rest = e.args
            by = multiply(self.var, self.sizes[data].astype(self.var.dtype))  # type: ignore[index]
            return Call(e.dtype, e.op, (kind, data, add(self.visit(offset), by), *rest), e.span)
        return self.rebuild(e)

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.sizes:
            raise TVMError(
                located(
                    f"InjectVirtualThread: the pointer {v.name} is used as it is, which leaves no place for the virtual"
                    " thread's own part; use tvm_access_ptr or address_of",
                    v,
                )
            )
        return v

    # --- statements

    def _repeated(self, s: Stmt) -> Stmt:
        """The statement once for each virtual thread."""
        kind = ForKind.UNROLLED if self.count <= UNROLL_UP_TO else ForKind.SERIAL
        return For(self.var, 0, self.count, kind, s)

    def _leaf(self, s: Stmt) -> Stmt:
        names = self.touched.names
        differs = _depends(s, names) or (isinstance(s, BufferStore) and s.buffer.data in names)
        new: Stmt = self._rebuilt(s)
        return self._repeated(new) if differs else new

    def _rebuilt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            buffer, value, indices = self._buffer(s.buffer), self.visit(s.value), self._shifted(s.buffer, s.indices)
            predicate = None if s.predicate is None else self.visit(s.predicate)
            return BufferStore(buffer, value, indices, predicate, s.span)
        return self.rebuild(s)

    @on(BufferStore, Evaluate)
    def _step(self, s: BufferStore | Evaluate) -> Stmt:
        return self._leaf(s)

    @on(AssertStmt, LetStmt)
    def _binding(self, s: AssertStmt | LetStmt) -> Stmt:
        return (
            self._whole(s)
            if self.touched.differs(getattr(s, "value", getattr(s, "condition", None)))
            else self._spread(s)
        )

    @on(IfThenElse, While)
    def _condition(self, s: IfThenElse | While) -> Stmt:
        return self._whole(s) if self.touched.differs(s.condition) else self._spread(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        differs = self.touched.differs(s.min) or self.touched.differs(s.extent)
        return self._whole(s) if differs else self._spread(s)

    def _spread(self, s: Stmt) -> Stmt:
        """A statement that all virtual threads enter together; the statements below are repeated."""
        out: Stmt = self.rebuild(s)
        return out

    def _whole(self, s: Stmt) -> Stmt:
        """A statement that is repeated as a whole for each virtual thread."""
        inner = _Plain(self)
        return self._repeated(inner.visit(s))

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        if s.buffer_var not in self.touched.names:
            return self.rebuild(s)
        size: PrimExpr = IntImm("int32", 1)
        for e in s.extents:
            size = multiply(size, e)
        self.sizes[s.buffer_var] = size
        return s.replace(extents=(multiply(size, IntImm(size.dtype, self.count)),), body=self.visit(s.body))

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        return stmt_seq(*[self.visit(x) for x in s.seq])

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> Stmt:
        buffer, body = self._buffer(s.buffer), self.visit(s.body)
        return s if buffer is s.buffer and body is s.body else DeclBuffer(buffer, body, s.span)


class _Plain(_Inject):
    """Inside a statement that is repeated as a whole: shifts accesses, and repeats nothing again."""

    def __init__(self, outer: _Inject) -> None:
        super().__init__(outer.var, outer.count, outer.touched)
        self.sizes, self.flat = outer.sizes, outer.flat

    def _repeated(self, s: Stmt) -> Stmt:
        return s

    def _whole(self, s: Stmt) -> Stmt:
        return self._spread(s)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        # Each virtual thread allocates inner storage anew.
        return self.rebuild(s)


class _VirtualThreads(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        new = self.rebuild(s)
        axis = s.node
        virtual = s.attr_key == "virtual_thread" or (
            s.attr_key == "thread_extent" and isinstance(axis, IterVar) and is_vthread(axis.thread_tag)
        )
        if not virtual or not isinstance(axis, IterVar):
            return new
        if not isinstance(s.value, IntImm):
            raise TVMError(
                located(f"InjectVirtualThread: {axis.var.name} has the extent {s.value}; it must be a constant", s)
            )
        touched = _Touched(axis.var)
        while touched.grown:
            touched.grown = False
            touched.visit(new.body)
        return _Inject(axis.var, s.value.value, touched).visit(new.body)


def InjectVirtualThread() -> Pass:
    """Interleave the statements of virtual threads. Storage that differs between virtual threads gets one copy for
    each.

    Barriers, and other statements that do not depend on the virtual thread, stay single. Needs flat buffers.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        body = _VirtualThreads().visit(func.body)
        return func if body is func.body else convert_ssa(func.replace(body=body))

    made: Pass = prim_func_pass(
        run, name="tir.InjectVirtualThread", needs=("flat_buffers",), gives=("no_virtual_threads",)
    )
    return made
