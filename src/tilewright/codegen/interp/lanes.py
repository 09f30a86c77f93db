"""The threads of a block in lockstep: generators that run from one barrier, reduction or shuffle to the next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from tilewright.codegen.interp.values import InterpError, Pointer, Races, allocate
from tilewright.codegen.interp.warp_registers import INSTRUCTIONS
from tilewright.codegen.interp.warpgroup_products import WARPGROUP, wgmma
from tilewright.ir import DataType
from tilewright.node import Visitor, on
from tilewright.tir import Allocate, AttrStmt, Block, Call, For, ForKind, IntImm, IterVar

WARP = 32
"""Number of threads of a warp. Their numbers are consecutive, and threadIdx.x changes fastest."""

TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")

COOPERATION = frozenset(
    f"tir.{name}"
    for name in (
        "tvm_storage_sync", "tvm_thread_allreduce", "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down",
        "create_barriers", "ptx_wait_barrier", "ptx_wait_barrier_parity", "ptx_wgmma", "ptx_wgmma_rs",
    )
)  # fmt: skip
"""Intrinsics at which the threads of a block wait for each other."""

OF_WARPS = frozenset(
    f"tir.{name}" for name in ("tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync")
)
"""Intrinsics that the threads of a warp compute together. Where threads are loops still, a loop of warps does not say which threads."""

ON_REGISTERS = frozenset({"tir.ptx_mma", "tir.ptx_ldmatrix"})
"""Instructions of a warp on the registers of its threads."""

_WARP_KINDS = frozenset({"at", "up", "down", "warp", *INSTRUCTIONS})


class Cooperation(Visitor):
    """Finds whether the threads of a block cooperate below a statement, and the number of threads by tag. on_registers: whether a warp
    uses its registers together."""

    def __init__(self) -> None:
        self.found = False
        self.on_registers = False
        self._launched = False
        self.extents: dict[str, Any] = {}

    def _axis(self, axis: IterVar | None, extent: Any) -> None:
        if axis is None or axis.thread_tag not in TAGS:
            return
        old = self.extents.get(axis.thread_tag)
        if old is None or (isinstance(old, IntImm) and isinstance(extent, IntImm) and extent.value > old.value):
            self.extents[axis.thread_tag] = extent

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent":
            self._launched = True
            self._axis(s.node, s.value)
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING:
            self._axis(s.thread_binding, s.extent)
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        self.found |= is_shared(scope_of(s.buffer_var))
        self.visit(s.body)

    @on(Block)
    def _block(self, block: Block) -> None:
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = getattr(e.op, "name", "")
        self.on_registers |= name in ON_REGISTERS
        self.found |= name in COOPERATION or (self._launched and (name in OF_WARPS or name in ON_REGISTERS))
        self.visit_children(e)


def scope_of(var: Any) -> str:
    """The storage scope in the type of a pointer variable."""
    return str(getattr(var.type_annotation, "storage_scope", "") or "global")


def is_shared(scope: str) -> bool:
    """Whether several threads share the storage that each of them declares in this scope."""
    return scope.split(".")[0] in ("shared", "warp")


def shared_storage(table: dict[Any, Any], lane: int, scope: str, name: str, dtype: DataType, count: int) -> Pointer:
    """The storage that the threads of a block (or of a warp) share. The first thread that asks creates it."""
    key = (name, lane // WARP if scope == "warp" else 0)
    found: Pointer | None = table.get(key)
    if found is None:
        found = table[key] = allocate(name.split(" ")[0], dtype, count)
        found.storage.shared = scope != "warp"
    return found


def store_first(pointer: Pointer, value: Any) -> None:
    """Writes the first element at a pointer."""
    at = pointer.offset // pointer.storage.data.dtype.itemsize
    pointer.storage.data[at] = value
    if pointer.storage.ready is not None:
        pointer.storage.ready[at] = True


ENDED = object()
Body = Callable[..., Generator[tuple[Any, ...], Any, None]]


def run_lanes(body: Body, extents: tuple[int, int, int], races: Races) -> None:
    """Runs a block of x * y * z threads. Raises InterpError if only some of them reach a barrier.

    Between barriers the threads run one after another, in alternating order, so that without a needed barrier some
    thread reads a value that is not written yet, or overwritten. With race checks every conflict of threads is found.
    """
    for _ in lanes(body, extents, races):
        raise InterpError("a barrier of all blocks stands outside of a launch")


def run_grid(blocks: list[Iterator[None]], races: Races) -> None:
    """Runs blocks that wait for each other, each up to the next barrier of all, one after another."""
    while blocks:
        races.launch += 1
        waiting = [block for block in blocks if next(block, ENDED) is not ENDED]
        if waiting and len(waiting) < len(blocks):
            raise InterpError("only some blocks of a launch reach a barrier of all blocks")
        blocks = waiting


def lanes(body: Body, extents: tuple[int, int, int], races: Races) -> Iterator[None]:
    """The threads of a block as a run that halts at each barrier of all blocks."""
    return _lanes(body, extents, races, races.thread)


def _lanes(body: Body, extents: tuple[int, int, int], races: Races, block: Any) -> Iterator[None]:
    shared: dict[Any, Any] = {"threads": extents[0] * extents[1] * extents[2]}
    points = [(x, y, z) for z in range(extents[2]) for y in range(extents[1]) for x in range(extents[0])]
    threads = [body(*point, k, shared) for k, point in enumerate(points)]
    waiting: list[tuple[Any, ...] | None] = [None] * len(threads)
    replies: list[Any] = [None] * len(threads)
    ready = list(range(len(threads)))
    turn = 1
    order: Any = None
    before = races.enter(block, order)
    while ready:
        for k in ready[::turn]:
            if races.on:
                races.iteration = k
            try:
                waiting[k] = threads[k].send(replies[k])
            except StopIteration:
                waiting[k] = None
        turn = -turn
        phases = shared.get("phases")
        ready = _answer_warps(waiting, replies, races) + _answer_warpgroups(waiting, races)
        if phases is not None:
            ready += [
                k for k, w in enumerate(waiting) if w is not None and w[0] == "phase" and phases.waits(w[1], w[2], k)
            ]
            if not ready and any([w is not None and w[0] == "phase" for w in waiting]):
                raise InterpError(phases.stuck(waiting))
        if not ready:
            ready = _answer_block(waiting, replies)
            if ready and races.on:
                races.epoch += 1
            if ready and phases is not None:
                phases.order.join(range(len(threads)))
            first = waiting[0]
            if ready and first is not None and first[0] == "grid":
                order = races.order
                races.leave(before)
                yield
                before = races.enter(block, order)
    races.leave(before)


def _answer_warpgroups(waiting: list[Any], races: Races) -> list[int]:
    """Multiplies for the warpgroups whose threads all wait for a product. Returns these threads."""
    out: list[int] = []
    for first in range(0, len(waiting) - WARPGROUP + 1, WARPGROUP):
        group = range(first, first + WARPGROUP)
        if all([waiting[k] is not None and waiting[k][0] == "wgmma" for k in group]):
            wgmma([waiting[k][1:] for k in group], first, races)
            out += group
    return out


def _answer_warps(waiting: list[Any], replies: list[Any], races: Races) -> list[int]:
    """Answers the warps whose threads all wait for each other. Returns these threads."""
    out: list[int] = []
    for first in range(0, len(waiting), WARP):
        group = range(first, min(first + WARP, len(waiting)))
        kinds = {waiting[k][0] for k in group if waiting[k] is not None}
        if len(kinds) != 1 or not kinds <= _WARP_KINDS:
            continue
        kind = kinds.pop()
        if any([waiting[k] is None for k in group]):
            raise InterpError(f"only some threads of a warp reach a {_NAMES[kind]}")
        if kind in INSTRUCTIONS:
            if len(group) < WARP:
                raise InterpError(f"{_NAMES[kind]} takes {WARP} threads, but the warp has {len(group)}")
            INSTRUCTIONS[kind]([waiting[k][1:] for k in group], group.start, races)
        if kind == "warp" and races.order is not None:
            races.order.join(group)
        for k in group:
            if kind in INSTRUCTIONS:
                replies[k] = None
            elif kind != "warp":
                replies[k] = waiting[_source(kind, k, group, int(waiting[k][2]), int(waiting[k][3]))][1]
        out += group
    return out


def _source(kind: str, k: int, group: range, by: int, width: int) -> int:
    """The thread whose value a shuffle gives to thread k: k itself if the other thread is outside k's part of the warp."""
    start = group.start + (k - group.start) // width * width
    other = start + by % width if kind == "at" else k - by if kind == "up" else k + by
    return other if start <= other < min(start + width, group.stop) else k


def _answer_block(waiting: list[Any], replies: list[Any]) -> list[int]:
    """Answers all threads of the block if they wait at one barrier or reduction. Returns these threads, or none if all have ended."""
    kinds = {None if w is None else w[0] for w in waiting}
    if kinds == {None}:
        return []
    if len(kinds) != 1:
        names = sorted(_NAMES[kind] if kind is not None else "their end" for kind in kinds)
        raise InterpError(f"the threads of a block part: some reach a {' and others '.join(names)}")
    if kinds == {"wgmma"}:
        raise InterpError(f"wgmma takes warpgroups of {WARPGROUP} threads, but the block has {len(waiting)}")
    if kinds == {"reduce"}:
        sums: dict[Any, tuple[Any, ...]] = {}
        for _, key, values, holds, combine, identity in waiting:
            old = sums.get(key)
            if old is None:
                old = identity
            sums[key] = combine(*old, *values) if holds else old
        for k, w in enumerate(waiting):
            replies[k] = sums[w[1]]
    return list(range(len(waiting)))


_NAMES = {
    "sync": "barrier",
    "grid": "barrier of all blocks",
    "reduce": "reduction over threads",
    "warp": "barrier of the warp",
    "at": "shuffle",
    "up": "shuffle up",
    "down": "shuffle down",
    "ldmatrix": "ldmatrix",
    "mma": "mma",
    "phase": "barrier with phases",
    "wgmma": "product of warpgroups",
}
