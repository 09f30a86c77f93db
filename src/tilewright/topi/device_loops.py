"""Programs of loops (`topi.loops`) on GPUs: parallel loops have a thread for each iteration; all else is the work of one thread.

A program that divides its work itself begins with `threads_of`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from tilewright.arith import IterMapLevel, detect_iter_map
from tilewright.ir import PrimExpr, Range
from tilewright.node import any_node, on, structural_equal
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
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL and _reads_own_places(stmt):
        dtype = stmt.loop_var.dtype
        count = tir.floordiv(stmt.extent + tir.const(threads - 1, dtype), tir.const(threads, dtype))
        block, thread = Var("block", dtype), Var("thread", dtype)
        index = block * tir.const(threads, dtype) + thread
        body = substitute(_Serial().visit(stmt.body), {stmt.loop_var: stmt.min + index})
        guarded = IfThenElse(index < stmt.extent, body, None)
        return _launch(block, count, "blockIdx.x", _launch(thread, tir.const(threads, dtype), "threadIdx.x", guarded))
    block, thread, one = Var("block", "int32"), Var("thread", "int32"), tir.const(1, "int32")
    return _launch(block, one, "blockIdx.x", _launch(thread, one, "threadIdx.x", _Serial().visit(stmt)))


def _reads_own_places(loop: For) -> bool:
    """Whether it can be proved that no iteration reads what another one wrote: what is read of buffers that the loop writes is at indices
    of loops, or at places that the iteration alone accesses."""
    accesses: list[BufferLoad | BufferStore] = []
    known = {loop.loop_var}

    def note(node: Any) -> None:
        if isinstance(node, (BufferLoad, BufferStore)):
            accesses.append(node)
        elif isinstance(node, For):
            known.add(node.loop_var)

    post_order_visit(loop, note)
    own = _allocated(loop)
    written = {a.buffer.data for a in accesses if isinstance(a, BufferStore)} - own
    for data in written:
        places = [a.indices for a in accesses if a.buffer.data is data]
        loads = [a.indices for a in accesses if a.buffer.data is data and isinstance(a, BufferLoad)]
        if not all([_follows(i, known) for indices in loads for i in indices]) and not _is_apart(loop, places):
            return False
    return True


def _follows(index: PrimExpr, variables: Set[Var]) -> bool:
    """Whether an index is computed from variables alone."""
    unknown: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, BufferLoad) or (isinstance(node, Var) and node not in variables):
            unknown.append(node)

    post_order_visit(index, look)
    return not unknown


def _is_apart(loop: For, places: Sequence[Sequence[PrimExpr]]) -> bool:
    """Whether indices that are the same at all places tell the iteration of a loop."""
    first = places[0]
    same = [
        i
        for k, i in enumerate(first)
        if _follows(i, {loop.loop_var}) and all([structural_equal(p[k], i) for p in places[1:]])
    ]
    iterations = Range.from_min_extent(loop.min, loop.extent)
    return bool(detect_iter_map(same, {loop.loop_var: iterations}, check_level=IterMapLevel.Bijective).indices)


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
