"""Tiles of a block that a tensor intrinsic computes: which loops they are of, and tiling by them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule.errors import Violation
from tilewright.tir.schedule.facts.leaves import int_extent, leaf_of, leaves
from tilewright.tir.schedule.facts.loop_uses import loop_kinds
from tilewright.tir.schedule.schedule import Schedule
from tilewright.tir.schedule.tensor_intrin import TensorIntrin, need_described

if TYPE_CHECKING:
    from tilewright.tir.function import PrimFunc
    from tilewright.tir.schedule.state import StmtSRef
    from tilewright.tir.schedule.trace import BlockRV, LoopRV
    from tilewright.tir.stmt import For


class TensorizeInfo(NamedTuple):
    """Which loops of a block are those of a description. desc_loop_indexer: the numbers of the description's loops, outermost first.
    block_iter_paddings: multiples that the extents of the block's variables are padded to; None if nothing is padded."""

    loop_map: dict[StmtSRef, For]
    desc_loop_indexer: dict[For, int]
    block_iter_paddings: list[int] | None


class Tile(NamedTuple):
    """Loops of a block, by their numbers, with the extents of the description's loops; and the padding of the block's variables."""

    places: tuple[int, ...]
    sizes: list[int]
    paddings: list[int] | None


def described(desc: PrimFunc) -> list[tuple[str, For]]:
    """The kinds and the loops of what an intrinsic computes. Raises ScheduleError unless it is one block."""
    sch = Schedule(desc)
    (root,) = sch.state.roots.values()
    below = leaves(root.stmt.body)
    if len(below) != 1:
        raise ScheduleError("the tensor intrinsic describes several blocks")
    return list(zip(loop_kinds(sch, sch.get_block(below[0].block.name_hint)), below[0].loops, strict=True))


def tiled(sch: Schedule, block: BlockRV, tile: Tile) -> LoopRV:
    """Splits the loops of a tile and moves it inside. Returns its outermost loop. Raises ScheduleError where a step is refused."""
    if tile.paddings is not None:
        sch.pad_einsum(block, tile.paddings)
    outer: list[Any] = []
    inner: list[Any] = []
    for i, loop in enumerate(sch.get_loops(block)):
        if i in tile.places:
            parts = sch.split(loop, [None, tile.sizes[tile.places.index(i)]])
            outer.append(parts[0])
            inner.append(parts[1])
        else:
            outer.append(loop)
    sch.reorder(*outer, *inner)
    found: LoopRV = inner[0]
    return found


def find_tile(sch: Schedule, block: BlockRV, desc: PrimFunc, allow_padding: bool = False) -> Tile | None:
    """The innermost tile of a block that a description computes; None if there is none. The schedule stays as it is."""
    root: Any = desc.body
    for tile in _candidates(sch, block, desc, allow_padding):
        tried = sch.copy()
        try:
            inner = tried.blockize(tiled(tried, block, tile))
            if root.block.init is None and tried.get(inner).init is not None:
                tried.decompose_reduction(inner, tried.get_loops(inner)[0])
            need_described(tried.state, tried.get(inner), desc)
        except (ScheduleError, Violation):
            continue
        return tile
    return None


def _candidates(sch: Schedule, block: BlockRV, desc: PrimFunc, allow_padding: bool) -> Iterator[Tile]:
    """Tiles whose loops have the kinds and extents of the description, those of inner loops first."""
    leaf = leaf_of(sch.get_sref(block))
    kinds, loops = loop_kinds(sch, block), leaf.loops
    wanted = [(kind, int_extent(loop) or 1) for kind, loop in described(desc)]
    fitting = [
        [
            i
            for i in reversed(range(len(loops)))
            if kinds[i] == kind and (allow_padding or (int_extent(loops[i]) or 1) % extent == 0)
        ]
        for kind, extent in wanted
    ]
    sizes = [extent for _, extent in wanted]
    for places in product(*fitting):
        if list(places) != sorted(set(places)):
            continue
        multiples = {
            loops[i].loop_var: n for i, n in zip(places, sizes, strict=True) if (int_extent(loops[i]) or 1) % n
        }
        if not multiples:
            yield Tile(places, sizes, None)
        elif multiples.keys() <= set(leaf.realize.iter_values):
            yield Tile(places, sizes, [multiples.get(value, 1) for value in leaf.realize.iter_values])


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Which loops of a block are those of the description of a tensor intrinsic; None if it computes no tile of the block. allow_padding:
    extents may be no multiples of the description's."""
    tile = find_tile(sch, block, desc_func, allow_padding)
    if tile is None:
        return None
    inside = [loop for _, loop in described(desc_func)]
    refs = [sch.get_sref(loop) for loop in sch.get_loops(block)]
    found = {refs[i]: loop for i, loop in zip(tile.places, inside, strict=True)}
    return TensorizeInfo(found, {loop: k for k, loop in enumerate(inside)}, tile.paddings)


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Tiles a block by the loops of a tensor intrinsic, and returns the outermost loop of the tile, which `tensorize` takes; None if it
    computes no tile of the block, and the schedule stays as it is. allow_padding: inputs are padded where extents are no multiples."""
    intrin = TensorIntrin.get(intrin_name)
    assert intrin is not None
    tile = find_tile(sch, block, intrin.desc, allow_padding)
    return None if tile is None else tiled(sch, block, tile)
