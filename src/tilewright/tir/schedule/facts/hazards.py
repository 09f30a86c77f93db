"""Dependences between blocks that share loops: whether each iteration reads only elements that it wrote itself, or that
no iteration writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

from tilewright.tir import Block, Buffer
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import need_complete_or_reduction, producers
from tilewright.tir.schedule.facts.certain import surely
from tilewright.tir.schedule.facts.leaves import REDUCE, Leaf, leaves
from tilewright.tir.schedule.facts.linear_forms import combine, same, shift
from tilewright.tir.schedule.facts.point_effects import undetermined
from tilewright.tir.schedule.facts.regions import Region, contains, needed, swept, unite, unite_exact
from tilewright.tir.schedule.state import ScheduleState, StmtSRef

if TYPE_CHECKING:
    from tilewright.arith.linear import Lin
    from tilewright.tir.stmt import For, Stmt


def swept_by(state: ScheduleState, found: Iterable[Leaf], buffer: Buffer, writes: bool) -> Region | None:
    """The parts of a buffer that the blocks access while the loops of each leaf run; for writes, only provable ones."""
    out: Region | None = None
    join = unite_exact if writes else unite
    for leaf in found:
        for region in leaf.block.writes if writes else leaf.block.reads:
            if region.buffer is buffer:
                box = (surely if writes else needed)(state, region, leaf, leaf.loops)
                out = join(state.forms, out, box)
    return out


def private_buffers(ref: StmtSRef, found: Iterable[Leaf]) -> set[Buffer]:
    """Buffers allocated by the scope that only the given blocks access."""
    below = {id(leaf.block) for leaf in found}
    scope = next((up.stmt for up in ref.ancestors() if type(up.stmt) is Block), None)
    if scope is None:
        return set()
    own = set(scope.alloc_buffers)
    for leaf in leaves(scope.body):
        if id(leaf.block) not in below:
            own -= {r.buffer for r in (*leaf.block.reads, *leaf.block.writes)}
    return own


def need_same_iteration(
    state: ScheduleState, found: list[Leaf], outer: tuple[For, ...], changing: list[For], private: Set[Buffer]
) -> None:
    """Refuse if the blocks below some loops pass values between different iterations of `changing`.

    found: the blocks with their inner loops, in program order. outer: all loops around, outermost first. private:
    buffers that no other block accesses. A buffer is safe if each iteration writes what it reads before it reads it,
    and no two iterations alternately write the same element.
    """
    if not state.enable_check:
        return
    first = min([i for i, lp in enumerate(outer) if any([lp is c for c in changing])], default=0)
    writers: dict[Buffer, list[Leaf]] = {}
    for leaf in found:
        for buffer in {r.buffer for r in leaf.block.writes}:
            writers.setdefault(buffer, []).append(leaf)
    for buffer, those in writers.items():
        for number, reader in enumerate(found):
            others = [w for w in those if w is not reader]
            if not others or all([r.buffer is not buffer for r in reader.block.reads]):
                continue
            earlier = [w for w in found[:number] if any([w is x for x in others])]
            for w in earlier:
                _need_complete_output(state, w, outer, changing, reader)
            provided = swept_by(state, earlier, buffer, writes=True)
            required = swept_by(state, [reader], buffer, writes=False)
            inside = (
                provided is not None
                and required is not None
                and contains(state.forms, provided, required, buffer.shape)
            )
            # Boxes have gaps that strides leave; what is written just before it is read has none.
            if not inside and not any([takes_only_from(state, reader, w, buffer) for w in earlier]):
                refuse(
                    f"an iteration of {{0}} must read only what it wrote itself of {buffer.name},"
                    " but {1} may read what {2} writes in another iteration",
                    outer[first] if outer else reader.block, reader.block, others[0].block,
                )  # fmt: skip
        if buffer not in private:
            need_own_elements(state, those, buffer, changing, changing[0])


def _need_complete_output(
    state: ScheduleState, writer: Leaf, outer: tuple[For, ...], changing: list[For], reader: Leaf
) -> None:
    """Require that the loops are not reduction loops of values that another block reads."""
    uses = binding_of(state, Leaf(writer.realize, outer + writer.loops, writer.conditional)).uses
    for lp in changing:
        if REDUCE in uses.get(lp.loop_var, ()):
            refuse(
                "{0} is a reduction loop of {1}, whose output is not complete inside it for {2}",
                lp,
                writer.block,
                reader.block,
            )


def need_own_elements(
    state: ScheduleState, found: list[Leaf], buffer: Buffer, changing: Sequence[For], loop: For
) -> None:
    """Require that several writers of a buffer write the part that the first one writes, in the same iteration of
    `changing`, or that all have the indices in common that tell iterations apart.
    """
    writers = [x for x in found if any([r.buffer is buffer for r in x.block.writes])]
    if len(writers) < 2 or not state.enable_check:
        return
    forms = state.forms
    boxes = [
        swept(state, region, leaf, leaf.loops) for leaf in writers for region in leaf.block.writes if region.buffer is buffer
    ]  # fmt: skip
    wanted = {lp.loop_var for lp in changing if forms.ranges.get(lp.loop_var, (0, 1)) != (0, 0)}

    def apart(bounds: list[Any]) -> bool:
        """Whether bounds in some dimensions tell the iterations apart."""
        places = [(low, shift(combine(high, low, -1), 1)) for low, high in bounds]
        return bool(places) and not undetermined(forms, places, wanted, wanted)

    common = [b[0] for b in zip(*boxes, strict=True) if all([_same_bounds(b[0], x) for x in b])]
    whole = boxes[0] if None not in boxes[0] else []
    within = all([contains(forms, boxes[0], box, buffer.shape) for box in boxes[1:]])
    if not apart(common) and not (within and apart(whole)):
        refuse(
            f"iterations of {{0}} must write elements of {buffer.name} of their own, but {{1}} and {{2}} may write those"
            " of others in turns",
            loop, writers[0].block, writers[1].block,
        )  # fmt: skip


def _same_bounds(a: tuple[Lin, Lin] | None, b: tuple[Lin, Lin] | None) -> bool:
    return a is not None and b is not None and same(a[0], b[0]) and same(a[1], b[1])


def shared_loops(a: tuple[Stmt, ...], b: tuple[Stmt, ...]) -> int:
    """The number of loops, from the outermost on, that two blocks have in common."""
    count = 0
    while count < min(len(a), len(b)) and a[count] is b[count]:
        count += 1
    return count


def takes_only_from(state: ScheduleState, user: Leaf, source: Leaf, buffer: Buffer) -> bool:
    """Whether a block accesses only what another provably wrote before it, in the same iteration of their shared loops."""
    shared = shared_loops(source.loops, user.loops)
    provided: Region | None = None
    for region in source.block.writes:
        if region.buffer is buffer:
            provided = surely(state, region, source, source.loops[shared:])
    return provided is not None and all([
        contains(state.forms, provided, needed(state, region, user, user.loops[shared:]), buffer.shape)
        for region in (*user.block.reads, *user.block.writes)
        if region.buffer is buffer
    ])  # fmt: skip


def need_settled(state: ScheduleState, ref: StmtSRef, leaf: Leaf, seen: set[int]) -> None:
    """Require that writes of other iterations to the inputs of a block do not change what it has read.

    This holds if each of these elements always gets the same value.
    """
    for source in producers(ref):
        if id(source.block) in seen or not shared_loops(source.loops, leaf.loops):
            continue
        seen.add(id(source.block))
        source_ref = state.ref(source.block)
        need_complete_or_reduction(state, source_ref)
        need_settled(state, source_ref, source, seen)
