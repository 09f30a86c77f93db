"""Checks of loops that are bound to threads. Every thread runs the whole kernel, so a thread must not read memory
that is private to another thread, and must not repeat an update.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import PassContext
from tilewright.node import Node, Visitor, any_node, on, structural_equal
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.analysis.flow import CONDITION, LOOP, UNKNOWN, Access, Accesses, Frame, covered, same_step
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
)
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import call_name, has_load

REAL = ("blockIdx.", "threadIdx.")


def thread_tag(s: Any) -> str:
    """The axis of real threads of a loop or attribute; "" for other statements."""
    axis = s.thread_binding if isinstance(s, For) and s.kind == ForKind.THREAD_BINDING else None
    if isinstance(s, AttrStmt) and s.attr_key == "thread_extent":
        axis = s.node
    tag = axis.thread_tag if isinstance(axis, IterVar) else ""
    return tag if tag.startswith(REAL) else ""


def own_memory(scope: str, tag: str) -> bool:
    """Whether each thread along the axis has a buffer of its own, if the kernel allocates the buffer in that scope."""
    memory = scope.split(".")[0]
    if tag.startswith("blockIdx."):
        return memory in ("", "global", "local", "warp", "shared", "wmma")
    # A fragment belongs to a warp, all of whose threads hold the whole of it, as far as a program can tell.
    return memory in ("", "global", "local", "wmma") or (memory == "warp" and tag != "threadIdx.x")


def need_own_memory(func: PrimFunc) -> None:
    """Refuses a kernel in which a thread reads private memory that another thread wrote.

    Global memory counts as private memory, because threads do not wait for each other there (the threads of a
    block do with `tir.detect_global_barrier`; all do at a barrier of all blocks that the program has).
    A write that all threads would make to it must run once.
    """
    walk = _Kernels()
    walk.visit(func.body)
    if not walk.apart:
        return
    accesses = Accesses(func)
    for buffer in accesses.found:
        _need_one_kernel(buffer, accesses)
        found = _foreign(buffer, accesses, walk.reduced)
        if found is not None:
            tag, read, write = found
            scope = buffer.scope() or "global"
            why = (
                f"each thread of {tag} has its own {buffer.name} ({scope} memory), and what is read there may have been"
                " written by another one; threads share buffers of a wider scope, or the same thread must read what it wrote"
            )
            if scope == "global" and not _root(accesses.made.get(buffer, ())):
                why = (
                    f"one kernel may read of {buffer.name} ({scope} memory) what another of its {tag} wrote, which does not"
                    " wait; the same must read what it wrote, or another kernel"
                    + (", or threads share shared memory" if tag.startswith("threadIdx.") else "")
                )
            raise TVMError(located(f"UnifyThreadBinding: {why}", write.node, read.node))
        _need_one_write(buffer, accesses)


def _need_one_kernel(buffer: Buffer, accesses: Accesses) -> None:
    """Refuses a buffer in thread memory that several kernels use, or also the host."""
    scope = buffer.scope() or "global"
    if scope == "global" or not own_memory(scope, "blockIdx.x"):
        return
    found = accesses.found[buffer]
    for other in found[1:]:
        if _root(other.frames) is not _root(found[0].frames):
            raise TVMError(
                located(
                    f"UnifyThreadBinding: {buffer.name} ({scope} memory) is there while one kernel runs, but is used outside"
                    " of it too; put all of that into loops around one kernel's threads, or use global memory",
                    found[0].node, other.node,
                )
            )  # fmt: skip


def _root(frames: tuple[Frame, ...]) -> Frame | None:
    """The loop that launches the kernel."""
    return next((f for f in frames if f.kind == LOOP and thread_tag(f.node)), None)


def _of(frames: tuple[Frame, ...], tag: str) -> Frame | None:
    """The innermost loop over the axis."""
    return next((f for f in reversed(frames) if f.kind == LOOP and thread_tag(f.node) == tag), None)


def _foreign(buffer: Buffer, accesses: Accesses, reduced: dict[Buffer, set[str]]) -> tuple[str, Access, Access] | None:
    """(axis, read, write) of a buffer in one kernel, where another thread may make the write; None if there is no such pair. reduced: the
    axes whose threads all get the result of a reduction in a buffer."""
    made = accesses.made.get(buffer, ())
    found = accesses.found[buffer]
    inside = _root(made) is not None or (buffer.scope() or "global") != "global"
    writes = [a for a in found if a.writes and _root(a.frames)]
    tags = dict.fromkeys([thread_tag(f.node) for w in writes for f in w.frames[len(made) :]])
    for tag in tags:
        if not tag or not (own_memory(buffer.scope(), tag) if inside else _nobody_waits(tag)):
            continue
        here = _of(made, tag)
        for read in found:
            root = _root(read.frames)
            if read.writes or root is None:
                continue
            mine = _of(read.frames, tag)
            for write in writes:
                other = _of(write.frames, tag)
                if (
                    other is here
                    or other is None
                    or _single(other)
                    or _root(write.frames) is not root
                    or (not inside and any([write.order < wait <= read.order for wait in accesses.waits]))
                    or read.node is write.node  # a call to which a pointer goes: what it does there is its own matter
                    or _by_other_name(buffer, read, write)
                    or _one_update(read, write)
                    or _starts_update(read, write, writes)
                    or (tag in _joint_result(write, reduced) and _for_all(write, other))
                ):
                    continue
                if mine is other and covered(read, writes, other.node):
                    break
                above = read.frames.index(root)
                if mine is None or not same_step(read, write, above, mine.var, other.var):  # type: ignore[arg-type]
                    return tag, read, write
    return None


def _by_other_name(buffer: Buffer, read: Access, write: Access) -> bool:
    """Whether both accesses are by one other name of the storage, under which they are compared element by element."""
    names = {id(getattr(a.node, "buffer", buffer)) for a in (read, write)}
    return read.places is None and write.places is None and len(names) == 1 and id(buffer) not in names


def _joint_result(write: Access, reduced: dict[Buffer, set[str]]) -> set[str]:
    """The axes over which a value that is written was reduced: all of their threads have it."""
    value = write.node.value if isinstance(write.node, BufferStore) else None
    return reduced.get(value.buffer, set()) if isinstance(value, BufferLoad) else set()


def _for_all(write: Access, axis: Frame) -> bool:
    """Whether all threads of an axis make a write, at the same places."""
    inside = write.frames[write.frames.index(axis) :]
    conditions = [f.node for f in inside if f.kind == CONDITION]
    if write.places is None or any([f.kind == UNKNOWN for f in inside]):
        return False
    return axis.var not in used_vars((*[e for place in write.places for e in place], *conditions))


def _nobody_waits(tag: str) -> bool:
    """Whether values that a thread along the axis writes to global memory may reach other threads of its kernel too late."""
    waits = PassContext.current().config.get("tir.detect_global_barrier", False)
    return tag.startswith("blockIdx.") or (tag.startswith("threadIdx.") and not waits)


def _need_one_write(buffer: Buffer, accesses: Accesses) -> None:
    """Refuses global memory that every thread of an axis writes, if a late write could overwrite a later value.

    All threads write the same value, which is harmless if no thread reads or stores another value there.
    """
    if (buffer.scope() or "global") != "global" or _root(accesses.made.get(buffer, ())):
        return
    found = accesses.found[buffer]
    for write in found:
        root = _root(write.frames)
        if not write.writes or root is None:
            continue
        for tag in _launched(root, accesses):
            if _of(write.frames, tag) is not None or not _nobody_waits(tag):
                continue
            here = [a for a in found if a is not write and _root(a.frames) is root]
            other = next((a for a in here if a.writes or a.order < write.order), None)
            if other is None and _writes_once(write):
                continue
            raise TVMError(
                located(
                    f"UnifyThreadBinding: every thread of {tag} would write {buffer.name} (global memory), the last ones maybe"
                    f" after others went on with it, as the write is in no loop that is bound to {tag}; bind one",
                    write.node, *([] if other is None else [other.node]),
                )
            )  # fmt: skip


def _launched(root: Frame, accesses: Accesses) -> list[str]:
    """The axes of a kernel with more than one thread."""
    inside = [a.frames for found in accesses.found.values() for a in found if _root(a.frames) is root]
    return list(
        dict.fromkeys(
            [t for fs in inside for f in fs if f.kind == LOOP and (t := thread_tag(f.node)) and not _single(f)]
        )
    )


def _writes_once(write: Access) -> bool:
    """Whether a write writes each element at most once in the serial loops around it."""
    return all(
        [
            same_step(write, write, at, f.var, f.var)  # type: ignore[arg-type]
            for at, f in enumerate(write.frames)
            if f.kind == LOOP and not thread_tag(f.node) and not _single(f)
        ]
    )


def _one_update(read: Access, write: Access) -> bool:
    """Whether a store updates an element by its old value; the loops bound to threads then write separate elements."""
    return read.order < write.order and _same_place(read, write, write.frames)


def _starts_update(read: Access, write: Access, writes: list[Access]) -> bool:
    """Whether a store is the first value of an element that is then updated by its old value."""
    first = write.frames and write.frames[-1].kind == CONDITION
    return bool(first) and _same_place(read, write, write.frames[:-1]) and any([_one_update(read, w) for w in writes])


def _same_place(read: Access, write: Access, frames: tuple[Frame, ...]) -> bool:
    if read.frames[: len(frames)] != frames or read.places is None or write.places is None:
        return False
    return all([structural_equal(a, b) for a, b in zip(read.places, write.places, strict=True)])


def _single(frame: Frame) -> bool:
    return frame.domain is not None and isinstance(frame.domain.extent, IntImm) and frame.domain.extent.value == 1


class _Kernels(Visitor):
    """Refuses updates that each thread of an axis would repeat. Finds whether a kernel has axes that start deep inside."""

    def __init__(self) -> None:
        self.tags: tuple[str, ...] = ()
        self.launched: dict[str, Any] = {}
        self.updates: list[tuple[BufferStore, tuple[str, ...]]] = []
        self.inside: dict[Var, tuple[str, ...]] = {}
        self.defined: set[Var] = set()
        self.by_thread: dict[str, set[Var]] = {}
        self.guards: tuple[Any, ...] = ()
        self.reads: set[Buffer] = set()
        self.writes: set[Buffer] = set()
        self.apart = False
        self.reduced: dict[Buffer, set[str]] = {}

    def _axis(self, tag: str, var: Var, extent: PrimExpr, body: Stmt) -> None:
        if isinstance(extent, IntImm) and not extent.value:
            return  # there are no threads
        outer, by_thread = self.tags, self.by_thread.get(tag)
        if tag in outer:
            self._need_joint(tag, body)
        if not outer:
            self.launched, self.updates, self.inside, self.defined = {}, [], {}, set()
            self.reads, self.writes = set(), set()
        elif has_load(extent) or not self.defined.isdisjoint(used_vars(extent)):
            raise TVMError(
                located(
                    f"UnifyThreadBinding: the extent {extent} of a loop bound to {tag} is known only inside of the kernel, which"
                    " is launched with the extents of all its axes; bind a loop of the greatest extent and guard its body",
                    extent,
                )
            )
        self.tags = (*outer, tag)
        self.by_thread[tag] = {var}
        self.defined.add(var)
        if not (isinstance(extent, IntImm) and extent.value == 1):
            self.launched[tag] = extent
        self.visit(body)
        self.tags = outer
        self.by_thread[tag] = by_thread or set()
        if not outer:
            self.apart = self.apart or not self.reads.isdisjoint(self.writes)
            for store, around in self.updates:
                self._once(store, around)

    def _need_joint(self, tag: str, body: Stmt) -> None:
        """Refuses a loop over an axis inside another one over it, unless each thread of the outer one may run a separate part."""
        if not tag.startswith("threadIdx.") or not self.by_thread[tag].isdisjoint(used_vars(body)):
            raise TVMError(
                located(
                    f"UnifyThreadBinding: a loop bound to {tag} stands inside of another one and runs for each step of it;"
                    " as one axis each thread would run a single step of both",
                    body,
                )
            )

    def _apart_from_others(self, s: BufferStore) -> None:
        """Refuses an update of one element by all threads of an axis, as in a reduction over threads that was not lowered."""
        made = self.inside.get(s.buffer.data, ())
        uses = used_vars((*s.indices, *self.guards))
        for tag in self.launched:
            own = tag in made and own_memory(s.buffer.scope(), tag)
            if tag in self.tags and not own and self.by_thread[tag].isdisjoint(uses):
                raise TVMError(
                    located(
                        f"UnifyThreadBinding: the threads of {tag} update one element of {s.buffer.name} at the same time; a"
                        " reduction over threads is lowered by LowerCrossThreadReduction, which must run before",
                        s,
                    )
                )

    def _depends(self, var: Var, value: PrimExpr) -> None:
        """Records a variable that is bound inside the kernel, and the axes on which its value depends."""
        self.defined.add(var)
        uses = used_vars(value)
        for names in self.by_thread.values():
            if not names.isdisjoint(uses):
                names.add(var)

    def _once(self, store: BufferStore, around: tuple[str, ...]) -> None:
        made = self.inside.get(store.buffer.data)
        for tag in self.launched:
            if tag in around or (made is not None and own_memory(store.buffer.scope(), tag)):
                continue
            raise TVMError(
                located(
                    f"UnifyThreadBinding: every thread of {tag} would update {store.buffer.name}, which they share"
                    f" ({store.buffer.scope() or 'global'} memory), as the update is in no loop that is bound to {tag};"
                    f" bind one, or keep the sum in local memory",
                    store,
                )
            )

    @on(For)
    def _for(self, s: For) -> None:
        tag = thread_tag(s)
        if tag:
            self._axis(tag, s.loop_var, s.extent, s.body)
        else:
            self.defined.add(s.loop_var)
            self.visit(s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        tag = thread_tag(s)
        if tag:
            self._axis(tag, s.node.var, s.value, s.body)
        else:
            self.visit(s.body)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self._depends(s.var, s.value)
        self.visit(s.value)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self._depends(axis.var, value)
        self.visit(s.predicate)
        self._under(s.predicate, s.block)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        self._under(s.condition, s.then_case)
        if s.else_case is not None:
            self._under(s.condition, s.else_case)

    def _under(self, condition: PrimExpr, body: Any) -> None:
        outer, self.guards = self.guards, (*self.guards, condition)
        self.visit(body)
        self.guards = outer

    @on(Block)
    def _block(self, s: Block) -> None:
        for b in s.alloc_buffers:
            if self.tags:
                self.inside[b.data] = self.tags
                self.apart = True
        if s.init is not None:
            self.visit(s.init)
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        if self.tags:
            self.inside[s.buffer_var] = self.tags
            self.apart = True
        self.visit(s.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        # Thread memory is checked wherever it is used.
        self.apart = self.apart or s.buffer.scope() not in ("", "global")
        if self.tags:
            self.writes.add(s.buffer)
            self.visit_children(s)
            if _updates(s):
                self.updates.append((s, self.tags))
                self._apart_from_others(s)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        self.visit_children(s)
        if call_name(s.value) == "tvm_thread_allreduce":
            results = [e for e in s.value.args[2 + int(s.value.args[0]) :] if isinstance(e, BufferLoad)]  # type: ignore[attr-defined]
            over = {t for t, names in self.by_thread.items() if not names.isdisjoint(used_vars(s.value))}
            for e in results:
                self.reduced.setdefault(e.buffer, set()).update(over)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        if self.tags:
            self.reads.add(e.buffer)
        self.visit_children(e)


def _updates(s: BufferStore) -> bool:
    """Whether a store changes the element by its old value."""

    def is_old(e: Node) -> bool:
        return (
            isinstance(e, BufferLoad)
            and e.buffer is s.buffer
            and all([structural_equal(a, b) for a, b in zip(e.indices, s.indices, strict=True)])
        )

    return any_node(s.value, is_old)
