"""The rule that tiles matrix products, and what can be brought to their form, for the matrix units of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir import IntImm
from tilewright.meta_schedule.blocks import is_root, needs_multi_level_tiling, note, simple_kinds
from tilewright.meta_schedule.schedule_rule.matrix_product import Unit, unit_of
from tilewright.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling, Tiled
from tilewright.scheduling.gpu.matrix_form import Product, Staged, as_product, padded, product_of
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.leaves import leaves

KEY, INIT, FETCH = (
    "meta_schedule.auto_tensorize",
    "meta_schedule.auto_tensorize_init",
    "meta_schedule.cooperative_fetch",
)
GROUP = ("init", "load_a", "load_b", "compute", "store")


@dataclass
class OnUnit(Tiled):
    """A schedule for a group of intrinsics. staged: the blocks that bring the operands and the result to the form of the product."""

    group: Mapping[str, str] = field(default_factory=dict)
    staged: Staged = field(init=False)


class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Tiles like MultiLevelTiling, for matrix units: products, batches of them, and convolutions as products.

    intrin_groups: the names of intrinsics, as `tensor_intrin.cuda.get_wmma_intrin_group` gives them, a mapping or several; each group whose
    types fit makes design spaces. Warps compute tiles, so tile_binds has threadIdx.y, and the threads of a warp, threadIdx.x, only copy.
    Extents that the tiles of the intrinsics do not divide are filled up. Blocks to which no group fits are left alone.
    use_software_pipeline: copies
    of the next step are made while the products of this one are computed. The other parameters are those of MultiLevelTiling.
    """

    def __init__(
        self,
        intrin_groups: Mapping[str, str] | Sequence[Mapping[str, str]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
        use_software_pipeline: bool = False,
    ) -> None:
        super().__init__(structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write)
        groups = [intrin_groups] if isinstance(intrin_groups, Mapping) else list(intrin_groups)
        for group in groups:
            if set(group) != set(GROUP):
                raise ValueError(
                    f"a group of intrinsics has the names {', '.join(GROUP)}, but {sorted(group)} were given"
                )
        if self.reuse_read.req != "must" or self.reuse_write.req != "must":
            raise ValueError(
                'operands and results of matrix units are staged: reuse_read and reuse_write must be "must"'
            )
        if not self.reuse_read.levels or not self.reuse_write.levels:
            raise ValueError("reuse_read and reuse_write of matrix units need a level of tiles")
        self.intrin_groups, self.use_software_pipeline = [dict(group) for group in groups], use_software_pipeline

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block) or note(sch.get(block), "meta_schedule.tiling_structure") is not None:
            return [sch]
        if not needs_multi_level_tiling(sch, block) or simple_kinds(sch, block) is None:
            return [sch]
        product = product_of(sch.get(block))
        made = []
        for group in self.intrin_groups if product is not None else ():
            state = OnUnit(sch.copy(), block, group=group)
            try:
                assert product is not None
                self._schedule(state, product)
            except ScheduleError:
                continue
            made.append(state.sch)
        return made or [sch]

    def _schedule(self, state: OnUnit, product: Product) -> None:
        """Schedules a block for a group of intrinsics. Raises ScheduleError where that does not fit."""
        unit = unit_of(state.group["compute"])
        block = state.sch.get(state.block)
        types = [str(block.reads[i].buffer.dtype) for i in product.places] + [str(block.writes[0].buffer.dtype)]
        if types != unit.dtypes:
            raise ScheduleError(f"the product is of {types}, the intrinsic of {unit.dtypes}")
        staged = as_product(state.sch, state.block, product, trans_b=unit.transposed)
        state.staged = padded(state.sch, state.block, staged, unit.sizes)
        _with_tiles(state, unit.sizes)
        sch = state.sch
        sch.annotate(state.block, "meta_schedule.tiling_structure", self.structure)
        sch.annotate(state.block, KEY, state.group["compute"])
        sch.annotate(state.block, INIT, state.group["init"])
        sch.annotate(state.block, "warp_execution", 1)
        self.tile(state)
        self._store(state, unit.sizes)
        self._load(state, product, unit)
        if self.use_software_pipeline:
            self._pipeline(state)

    def _store(self, state: OnUnit, sizes: tuple[int, int, int]) -> None:
        """Fragments of sums, stored to shared memory, from where all threads copy them."""
        sch, steps = state.sch, self.structure.index("R")
        _, levels, scope = self.reuse_write
        shared = sch.cache_write(state.block, 0, scope)
        fragments = sch.cache_write(state.block, 0, "wmma.accumulator")
        sch.reverse_compute_at(fragments, _loop(state, steps), True)
        sch.reverse_compute_at(shared, _loop(state, levels[0]), True)
        sch.reverse_compute_inline(state.staged.result)
        _annotated(sch, fragments, sizes[:2], state.group["store"])
        self._fetched(sch, shared, _loop(state, levels[0]))

    def _load(self, state: OnUnit, product: Product, unit: Unit) -> None:
        """Operands in shared memory, loaded to fragments."""
        sch, inner = state.sch, self.structure.rindex("R") + 1
        _, levels, scope = self.reuse_read
        m, n, k = unit.sizes
        shapes = [(m, k), (n, k) if unit.transposed else (k, n)]
        for name, place, shape, staged in zip("ab", product.places, shapes, state.staged.operands, strict=True):
            shared = sch.cache_read(state.block, place, scope, [state.block])
            fragments = sch.cache_read(state.block, place, f"wmma.matrix_{name}", [state.block])
            sch.compute_at(fragments, _loop(state, inner), True)
            sch.compute_at(shared, _loop(state, levels[0]), True)
            sch.compute_inline(staged)
            self._fetched(sch, shared, _loop(state, levels[0]))
            _annotated(sch, fragments, shape, state.group[f"load_{name}"])

    def _fetched(self, sch: Schedule, block: BlockRV, outer: LoopRV) -> None:
        """A copy whose loops below a loop are one, which threads share."""
        loops = sch.get_loops(block)
        place = [sch.get(loop) for loop in loops].index(sch.get(outer))
        own = loops[place + 1 :]
        sch.fuse(*own)
        lengths = self.vector_load_lens or [1]
        length = sch.sample_categorical(lengths, [1.0 / len(lengths)] * len(lengths))
        sch.annotate(block, FETCH, length)

    def _pipeline(self, state: OnUnit) -> None:
        """Copies to shared memory run a step ahead of the products."""
        (loop,) = state.tiles[self.structure.index("R")][-1:]
        count = len(leaves(state.sch.get(loop).body))
        copies = sum([note(leaf.block, FETCH) is not None for leaf in leaves(state.sch.get(loop).body)])
        if not 0 < copies < count:
            raise ScheduleError("there is nothing to be copied ahead in the loop of the steps")
        # The products of a step are one statement: loads of fragments are in their loops.
        state.sch.annotate(loop, "software_pipeline_stage", [0] * copies + [1])
        state.sch.annotate(loop, "software_pipeline_order", list(range(copies + 1)))


def _with_tiles(state: OnUnit, sizes: tuple[int, int, int]) -> None:
    """Makes a block of the tile that an intrinsic computes. Raises ScheduleError where the extents are no multiples of it."""
    sch = state.sch
    *batch, m, n, k = sch.get_loops(state.block)
    parts = [_divided(sch, loop, size) for loop, size in zip((m, n, k), sizes, strict=True)]
    sch.reorder(*batch, *[outer for outer, _ in parts], *[inner for _, inner in parts])
    state.block = sch.blockize(parts[0][1])


def _divided(sch: Schedule, loop: LoopRV, size: int) -> tuple[LoopRV, LoopRV]:
    extent = sch.get(loop).extent
    if not isinstance(extent, IntImm) or extent.value % size:
        raise ScheduleError(f"an extent of {extent} is no multiple of {size}")
    outer, inner = sch.split(loop, [None, size])
    return outer, inner


def _annotated(sch: Schedule, block: BlockRV, shape: tuple[int, int], intrinsic: str) -> None:
    """Makes tiles of a copy, which an intrinsic does."""
    *_, i, j = sch.get_loops(block)
    (i0, i1), (j0, j1) = _divided(sch, i, shape[0]), _divided(sch, j, shape[1])
    sch.reorder(i0, j0, i1, j1)
    sch.annotate(sch.blockize(i1), KEY, intrinsic)


def _loop(state: Tiled, level: int) -> LoopRV:
    found = state.innermost(level)
    if found is None:
        raise ScheduleError(f"the tiles have no loop of level {level}")
    return found
