"""The rule that tiles reductions in several levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tilewright.meta_schedule.blocks import is_root, needs_multi_level_tiling, note, simple_kinds
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.support import lazy
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.analysis import is_output_block
from tilewright.tir.schedule.facts.block_checks import consumers
from tilewright.tir.schedule.facts.loop_uses import loop_kinds

NO_LIMIT = 2**31 - 1


class ReuseType(NamedTuple):
    """How a buffer is staged. req: "no", "may" (with and without) or "must". levels: groups of tiles, from 1 on, whose innermost loop
    the copy is computed in. scope: where it is stored."""

    req: str
    levels: Sequence[int]
    scope: str

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return self._asdict()


def _reuse(value: Any) -> ReuseType:
    """A ReuseType from one or from its fields. Raises ValueError for others."""
    made = ReuseType("no", (), "") if value is None else ReuseType(**value) if isinstance(value, dict) else value
    if made.req not in ("no", "may", "must"):
        raise ValueError(f'the req of a ReuseType must be "no", "may" or "must", but is {made.req!r}')
    return ReuseType(made.req, tuple(made.levels), made.scope)


@dataclass
class Tiled:
    """A schedule at some step of the rule. tiles: the loops of each letter of the structure."""

    sch: Schedule
    block: BlockRV
    tiles: list[list[LoopRV]] = field(default_factory=list)

    def copy(self) -> Tiled:
        return replace(self, sch=self.sch.copy(), tiles=[list(t) for t in self.tiles])

    def innermost(self, level: int) -> LoopRV | None:
        """The innermost loop of a group of tiles, from 1 on, or of the next one outside that has loops."""
        return next((group[-1] for group in reversed(self.tiles[:level]) if group), None)


class MultiLevelTiling(ScheduleRule):
    """Tiles a reduction whose inputs are read again.

    structure: the groups of tiles, outermost first: S of the spatial loops, R of the reduction loops. "SSRSRS" is usual on CPUs.
    tile_binds: thread axes of the outermost groups. max_innermost_factor: of each loop; None: no limit. vector_load_lens: the choices of
    the lengths of vectors that threads copy. reuse_read, reuse_write: ReuseType, or its fields. filter_fn: (schedule, block) -> whether a
    block is tiled, instead of the analysis.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
        filter_fn: Callable[[Schedule, Any], bool] | None = None,
    ) -> None:
        if not structure or set(structure) - set("SR"):
            raise ValueError(f"the structure of tiles is a text of S and R, such as SSRSRS, but is {structure!r}")
        self.structure = structure
        self.tile_binds = list(tile_binds or ())
        self.max_innermost_factor = max_innermost_factor
        self.vector_load_lens = list(vector_load_lens or ())
        self.reuse_read, self.reuse_write = _reuse(reuse_read), _reuse(reuse_write)
        self.filter_fn = filter_fn

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block) or note(sch.get(block), "meta_schedule.tiling_structure") is not None:
            return [sch]
        wanted = self.filter_fn(sch, sch.get_sref(block)) if self.filter_fn else needs_multi_level_tiling(sch, block)
        if not wanted or simple_kinds(sch, block) is None:
            return [sch]
        start = Tiled(sch.copy(), block)
        try:
            self.prepare(start)
            self.tile(start)
        except ScheduleError:
            return [sch]
        return [made.sch for state in self.stage_outputs(start) for made in self.stage_inputs(state)] or [sch]

    def prepare(self, state: Tiled) -> None:
        """What is done before a block is tiled."""
        state.sch.annotate(state.block, "meta_schedule.tiling_structure", self.structure)

    def parts(self, state: Tiled, loop: LoopRV, count: int) -> list[LoopRV]:
        """The loops into which a loop is split, outermost first."""
        factors = state.sch.sample_perfect_tile(loop, count, self.max_innermost_factor or NO_LIMIT)
        return state.sch.split(loop, [*factors])

    def tile(self, state: Tiled) -> None:
        """Splits the loops, brings them in the order of the structure, and binds the outer ones. Raises ScheduleError where a step is
        refused."""
        sch, block = state.sch, state.block
        state.tiles = [[] for _ in self.structure]
        kinds = loop_kinds(sch, block)
        for loop, kind in zip(sch.get_loops(block), kinds, strict=True):
            places = [i for i, letter in enumerate(self.structure) if letter == kind]
            if not places:
                raise ScheduleError(f"the structure {self.structure} has no place for loops of kind {kind}")
            parts = self.parts(state, loop, len(places)) if len(places) > 1 else [loop]
            for place, part in zip(places, parts, strict=True):
                state.tiles[place].append(part)
        sch.reorder(*[loop for group in state.tiles for loop in group])
        for i, axis in enumerate(self.tile_binds):
            if state.tiles[i]:
                fused = sch.fuse(*state.tiles[i]) if len(state.tiles[i]) > 1 else state.tiles[i][0]
                sch.bind(fused, axis)
                state.tiles[i] = [fused]
        target = self.context.target if self.context is not None else None
        if self.tile_binds and target is not None:
            most = int(target.attrs.get("max_threads_per_block", target.attrs.get("max_num_threads", 1024)))
            least = int(target.attrs.get("thread_warp_size", 1))
            sch.annotate(block, "meta_schedule.thread_extent_low_inclusive", least)
            sch.annotate(block, "meta_schedule.thread_extent_high_inclusive", most)

    def stage_outputs(self, state: Tiled) -> list[Tiled]:
        """The schedules of all ways to stage the output: where a single block reads it, that block is computed in the tiles."""
        req, levels, scope = self.reuse_write
        given = note(state.sch.get(state.block), "meta_schedule.write_cache_level")
        if given is not None:
            req, levels = "must", given if isinstance(given, list) else [given]
        if req == "no":
            return [state]
        made = [state] if req == "may" else []
        fused = []
        if not is_output_block(state.sch, state.block) and len(consumers(state.sch.get_sref(state.block))) == 1:
            (consumer,) = state.sch.get_consumers(state.block)
            fused = [new for level in levels if (new := self._with_consumer(state, consumer, level)) is not None]
            made += fused
        if not fused:
            made += [new for level in levels if (new := self._with_write_cache(state, level, scope)) is not None]
        return made or [state]

    @staticmethod
    def _with_consumer(state: Tiled, consumer: BlockRV, level: int) -> Tiled | None:
        new, loop = state.copy(), state.innermost(level)
        if loop is None:
            return None
        try:
            new.sch.reverse_compute_at(consumer, loop, True)
        except ScheduleError:
            return None
        return new

    @staticmethod
    def _with_write_cache(state: Tiled, level: int, scope: str) -> Tiled | None:
        new, loop = state.copy(), state.innermost(level)
        if loop is None:
            return None
        try:
            cache = new.sch.cache_write(new.block, 0, scope)
            new.sch.reverse_compute_at(cache, loop, True)
        except ScheduleError:
            return None
        return new

    def stage_inputs(self, state: Tiled) -> list[Tiled]:
        """The schedules of all ways to stage the inputs."""
        req, levels, scope = self.reuse_read
        if req == "no":
            return [state]
        made = [state] if req == "may" else []
        for level in levels:
            new = state.copy()
            try:
                self._read_caches(new, level, scope)
            except ScheduleError:
                continue
            made.append(new)
        return made or [state]

    def _read_caches(self, state: Tiled, level: int, scope: str) -> None:
        sch, block, loop = state.sch, state.block, state.innermost(level)
        if loop is None:
            return
        written = {r.buffer for r in sch.get(block).writes}
        for i, read in enumerate(sch.get(block).reads):
            if read.buffer in written:
                continue
            cache = sch.cache_read(block, i, scope, [block])
            sch.compute_at(cache, loop, True)
            own = sch.get_loops(cache)[-len(read.buffer.shape) :]
            sch.fuse(*own)
            if self.vector_load_lens:
                count = len(self.vector_load_lens)
                length = sch.sample_categorical(self.vector_load_lens, [1.0 / count] * count)
                sch.annotate(cache, "meta_schedule.cooperative_fetch", length)


__getattr__, __dir__ = lazy.late(__name__)
