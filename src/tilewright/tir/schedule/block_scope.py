"""Dependences between the blocks of a scope, and properties of each block, under the names of classic TVM."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.tir import Block
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import is_update, producers
from tilewright.tir.schedule.facts.certain import surely
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, leaf_of, leaves, scope_root
from tilewright.tir.schedule.facts.point_effects import clashes, self_dependence
from tilewright.tir.schedule.facts.regions import contains, needed, unite_exact
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, register_analyses

if TYPE_CHECKING:
    from tilewright.ir.module import IRModule


class DepKind(IntEnum):
    """The kind of a dependence between two accesses of one buffer."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class Dependency:
    """`dst` must run after `src`."""

    __slots__ = ("dst", "kind", "src")

    def __init__(self, src: StmtSRef, dst: StmtSRef, kind: DepKind) -> None:
        self.src, self.dst, self.kind = src, dst, kind

    def __repr__(self) -> str:
        return f"Dependency({self.src.stmt.name_hint} -> {self.dst.stmt.name_hint}, {self.kind.name})"


class BlockScope:
    """The dependences between the child blocks of a block."""

    def __init__(self, deps: list[Dependency]) -> None:
        self._deps = deps

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """The dependences that start at a block."""
        return [d for d in self._deps if d.src is block]

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """The dependences that end at a block."""
        return [d for d in self._deps if d.dst is block]


class CachedFlags(NamedTuple):
    """Properties of a block.

    affine_binding: its iteration variables are independent affine functions of the loops.

    region_cover: each iteration of the loops shared with a producer writes everything that the block reads.

    stage_pipeline: all blocks directly below are complete or reductions, and have region_cover.
    """

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


def block_scope(state: ScheduleState, scope: StmtSRef) -> BlockScope:
    """The dependences between the blocks directly below `scope`, in program order."""
    found = leaves(scope.stmt.body)
    deps: list[Dependency] = []
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            for kind in _kinds(first.block, second.block):
                deps.append(Dependency(state.ref(first.block), state.ref(second.block), kind))
    return BlockScope(deps)


def _kinds(first: Block, second: Block) -> list[DepKind]:
    w1, r1 = ({r.buffer for r in regions} for regions in (first.writes, first.reads))
    w2, r2 = ({r.buffer for r in regions} for regions in (second.writes, second.reads))
    return [k for k, a, b in ((DepKind.RAW, w1, r2), (DepKind.WAW, w1, w2), (DepKind.WAR, r1, w2)) if a & b]


def flags_of(state: ScheduleState, ref: StmtSRef) -> CachedFlags:
    """The properties of a block in the current program."""
    below = leaves(ref.stmt.body)
    stage = all([_is_stage(state, leaf, below) for leaf in below])
    if ref.parent is None:
        return CachedFlags(True, True, stage)
    return CachedFlags(binding_of(state, leaf_of(ref)).injective, covers_reads(state, ref), stage)


def _is_stage(state: ScheduleState, leaf: Leaf, scope: list[Leaf]) -> bool:
    block = leaf.block
    if clashes(state, block) or self_dependence(state, block):
        return False
    if any([iv.iter_type != DATA_PAR for iv in block.iter_vars]) and block.init is None:
        return False
    own = {r.buffer for r in block.writes}
    alone = all([x is leaf or own.isdisjoint({r.buffer for r in x.block.writes}) for x in scope])
    return alone and (block.init is not None or not is_update(block)) and covers_reads(state, state.ref(block))


def covers_reads(state: ScheduleState, ref: StmtSRef) -> bool:
    """Whether each iteration of shared loops writes everything that the block reads of its producers' outputs in that iteration."""
    reader = leaf_of(ref)
    wanted = {r.buffer: r for r in ref.stmt.reads}
    sources = producers(ref)
    for buffer, read in wanted.items():
        writers = [x for x in sources if any([w.buffer is buffer for w in x.block.writes])]
        if not writers:
            continue
        shared = 0
        while all(
            [shared < min(len(x.loops), len(reader.loops)) and x.loops[shared] is reader.loops[shared] for x in writers]
        ):
            shared += 1
        provided: Any = None
        for x in writers:
            for w in x.block.writes:
                if w.buffer is buffer:
                    provided = unite_exact(state.forms, provided, surely(state, w, x, x.loops[shared:]))
        required = needed(state, read, reader, reader.loops[shared:])
        if not contains(state.forms, provided, required, buffer.shape):
            return False
    return True


class BlockDependenceInfo:
    """The dependences in every scope of a module, without a schedule."""

    def __init__(self, mod: IRModule) -> None:
        self._state = ScheduleState(mod)
        self.sref2scope = {
            ref: block_scope(self._state, ref) for ref in self._state.all_refs() if type(ref.stmt) is Block
        }

    def get_sref(self, block: Block) -> StmtSRef | None:
        """The reference to a block of the module."""
        return self._state.get_sref(block)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The dependences between the children of a block."""
        return self.sref2scope[block_sref]


register_analyses(block_scope, flags_of)

__all__ = [
    "BlockDependenceInfo", "BlockScope", "CachedFlags", "DepKind", "Dependency", "block_scope", "flags_of", "scope_root",
]  # fmt: skip
