"""Programs of loops (`topi.loops`) on GPUs: parallel loops have a thread for each iteration; all else is the work of one thread.

A program that divides its work itself begins with `threads_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.node import any_node, on
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.tir.substitution import BufferMutator, substitute
from tilewright.topi.lang import tir

if TYPE_CHECKING:
    from tilewright.tir.ir_builder import IRBuilder

THREADS = 64
"""Threads of a block, where nothing says otherwise. Lines are few and long, so blocks are small."""


def bound(stmt: Stmt, threads: int = THREADS) -> Stmt:
    """A statement of a program, with its loops bound to threads of blocks of so many. Each statement of a sequence is a kernel of its own.
    What is bound already stays."""
    if any_node(stmt, lambda n: isinstance(n, AttrStmt) and n.attr_key == "thread_extent") and not isinstance(
        stmt, SeqStmt
    ):
        return stmt
    if isinstance(stmt, SeqStmt):
        return SeqStmt(tuple([bound(s, threads) for s in stmt.seq]))
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL and _reads_known_places(stmt):
        dtype = stmt.loop_var.dtype
        count = tir.floordiv(stmt.extent + tir.const(threads - 1, dtype), tir.const(threads, dtype))
        block, thread = Var("block", dtype), Var("thread", dtype)
        index = block * tir.const(threads, dtype) + thread
        body = substitute(_Serial().visit(stmt.body), {stmt.loop_var: stmt.min + index})
        guarded = IfThenElse(index < stmt.extent, body, None)
        return _launch(block, count, "blockIdx.x", _launch(thread, tir.const(threads, dtype), "threadIdx.x", guarded))
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


def _iter(tag: str) -> IterVar:
    return IterVar(None, Var(tag.replace(".", "_"), "int32"), IterVar.ThreadIndex, tag)


def threads_of(ib: IRBuilder, blocks: Any, threads: int) -> tuple[Any, Any]:
    """(number of the block, number of the thread) for all that follows in this scope."""
    axes = _iter("blockIdx.x"), _iter("threadIdx.x")
    for axis, extent in zip(axes, (blocks, threads), strict=True):
        ib.scope_attr(axis, "thread_extent", extent)
    return axes[0].var, axes[1].var


def wait(ib: IRBuilder) -> None:
    """All threads of a block have arrived, and see what the others wrote to shared memory."""
    ib.emit(tir.Evaluate(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared")))


def shared(ib: IRBuilder, dtype: str, elements: int, name: str) -> Any:
    """Memory that the threads of a block share."""
    return ib.allocate(dtype, (elements,), name=name, scope="shared")


def log2(n: int) -> int:
    """The least k with 2^k >= n."""
    return (n - 1).bit_length()


__all__ = ["bound", "log2", "shared", "threads_of", "wait"]
