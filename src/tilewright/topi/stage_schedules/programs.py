"""Programs of loops (`topi.loops`) on GPUs: parallel loops have a thread for each iteration; all else is the work of one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.node import on
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.tir.substitution import BufferMutator, substitute
from tilewright.topi.lang import tir
from tilewright.topi.loops import placed

THREADS = 64
"""Threads of a block. Lines are few and long, so blocks are small."""


def on_threads(form: Callable[..., Any]) -> Callable[..., Any]:
    """A compute whose programs run on a GPU."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        with placed(bound):
            return form(*args, **kwargs)

    compute.__doc__ = form.__doc__
    return compute


def bound(stmt: Stmt) -> Stmt:
    """A statement of a program, with its loops bound to threads. Each statement of a sequence is a kernel of its own."""
    if isinstance(stmt, SeqStmt):
        return SeqStmt(tuple([bound(s) for s in stmt.seq]))
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL and _reads_known_places(stmt):
        dtype = stmt.loop_var.dtype
        count = tir.floordiv(stmt.extent + tir.const(THREADS - 1, dtype), tir.const(THREADS, dtype))
        block, thread = Var("block", dtype), Var("thread", dtype)
        index = block * tir.const(THREADS, dtype) + thread
        body = substitute(_Serial().visit(stmt.body), {stmt.loop_var: stmt.min + index})
        guarded = IfThenElse(index < stmt.extent, body, None)
        return _launch(block, count, "blockIdx.x", _launch(thread, tir.const(THREADS, dtype), "threadIdx.x", guarded))
    block, thread, one = Var("block", "int32"), Var("thread", "int32"), tir.const(1, "int32")
    return _launch(block, one, "blockIdx.x", _launch(thread, one, "threadIdx.x", _Serial().visit(stmt)))


def _reads_known_places(stmt: Stmt) -> bool:
    """Whether what a statement reads of buffers that it writes is at indices of loops. At others, that threads do not read what another one
    wrote cannot be proved."""
    reads: list[BufferLoad] = []
    written: set[Var] = set()
    known: set[Var] = set()

    def note(node: Any) -> None:
        if isinstance(node, BufferLoad):
            reads.append(node)
        elif isinstance(node, BufferStore):
            written.add(node.buffer.data)
        elif isinstance(node, For):
            known.add(node.loop_var)

    def places(node: Any) -> None:
        if isinstance(node, BufferLoad) or (isinstance(node, Var) and node not in known):
            unknown.append(node)

    unknown: list[Any] = []
    post_order_visit(stmt, note)
    own = _allocated(stmt)
    for load in reads:
        if load.buffer.data in written and load.buffer.data not in own:
            for index in load.indices:
                post_order_visit(index, places)
    return not unknown


def _allocated(stmt: Stmt) -> set[Var]:
    found: set[Var] = set()

    def note(node: Any) -> None:
        if isinstance(node, Allocate):
            found.add(node.buffer_var)

    post_order_visit(stmt, note)
    return found


def _launch(var: Var, extent: Any, tag: str, body: Stmt) -> For:
    axis = IterVar(None, Var(tag, var.dtype), IterVar.ThreadIndex, tag)
    return For(var, tir.const(0, var.dtype), extent, ForKind.THREAD_BINDING, body, axis)


class _Serial(BufferMutator):
    """Loops inside of a thread are its own."""

    @on(For)
    def _for(self, loop: For) -> Stmt:
        made = self.rebuild(loop)
        return made.replace(kind=ForKind.SERIAL) if made.kind == ForKind.PARALLEL else made
