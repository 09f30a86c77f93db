"""Contractions of narrow numbers by instructions on tiles (AMX): C[16, 16] += A[16, k] * B[k, 16] in tile registers.

A product in groups (scheduling/instructions.py) can be computed by tiles if the rows of A are stored as they are multiplied.

    parallel panels of columns, tiles of rows:
      fill C          (one or two tiles of rows by one or two of columns)
      for the reduction: C += A * B
      store C
      epilogue over the tile
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tilewright.arith import detect_linear_equation
from tilewright.ir import FloatImm, IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, uses
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.contraction import is_contraction
from tilewright.scheduling.cpu.epilogue import vectorize_tile
from tilewright.scheduling.cpu.sharing import most_even, parallelize, useful_threads
from tilewright.scheduling.instructions import (
    MOST_COLUMNS,
    MOST_ROWS,
    row_tiles,
    step_groups,
    tile_product,
)
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir import Add, BufferLoad, BufferRegion, BufferStore, Cast, Mul, Var
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.tir.tensor_intrin.amx import DOT, FILL, SCOPE, SIDE, STORE, STORE_LOCAL, Tile


@dataclass(frozen=True)
class Found:
    """The axes of a block computed by tiles: rows, lines above them, columns, and panels (positions among its spatial
    axes); the model's tile, and the sizes that other tiles can have.
    """

    tile: Tile
    row: int
    line: int | None
    panel: int | None
    rows: Sequence[int]
    columns: Sequence[int]
    steps: Sequence[int]
    panels: Sequence[int] = (0,)
    lines: Sequence[int] = (0,)

    def tiles(self) -> list[Tile]:
        """The tiles that registers hold."""
        every = product(self.rows, self.columns, self.steps, self.panels, self.lines)
        return [t for sizes in every if (t := self.of(sizes)).fits]

    def sizes(self, tile: Tile) -> tuple[int, ...]:
        """What is decided about a tile: (rows, columns, steps), and, of blocks of channels, (panels, lines)."""
        matrix = (tile.rows, tile.columns, tile.steps)
        return matrix if self.panel is None else (*matrix, tile.panels, tile.lines)

    def of(self, sizes: tuple[int, ...]) -> Tile:
        """The tile of such sizes."""
        rows, columns, steps, *blocks = sizes
        panels, lines = blocks or (0, 0)
        return self.tile._replace(rows=rows, columns=columns, steps=steps, panels=panels, lines=lines)


def chosen_tile(plan: KernelPlan, block: BlockView, found: Found) -> Tile:
    """The tile that the plan decides."""
    model = found.sizes(found.tile)
    return found.of(plan.choose(f"{block.name}.tile", model, lambda: [found.sizes(t) for t in found.tiles()]))


def by_tiles(plan: KernelPlan, block: BlockView, target: Target) -> bool:
    """Whether tile registers compute a block that they can compute; vector registers may do, too."""
    choices = ("tiles", "vectors") if is_contraction(block, target) else ("tiles",)
    return plan.choose(f"{block.name}.registers", "tiles", lambda: choices) == "tiles"


def tile_of(block: BlockView, target: Target) -> Found | None:
    """The tiles for a block; None if it is not written in groups, or its rows cannot be loaded to tile registers."""
    spatial, reduction = block.spatial, block.reduction
    if len(reduction) < 2 or len(spatial) < 2 or block.block.init is None or len(block.block.writes) != 1:
        return None
    if len(block.block.reads) != 2 or any([e >= 1 << 20 for e in block.extents]):
        return None
    data, weight = block.block.reads
    write = block.block.writes[0]
    core = target.cpu.core
    taken = tile_product(target, str(data.buffer.dtype), str(weight.buffer.dtype), str(write.buffer.dtype))
    group, step, column = reduction[-1], reduction[-2], spatial[-1]
    extent = dict(zip(block.block.iter_vars, block.extents, strict=True))
    if taken is None or extent[group] != taken.group or len(weight.region) < 3 or not _sums_products(block):
        return None
    places = [r.min for r in weight.region]
    if places[-1] is not group.var or places[-3] is not step.var or column.var not in uses(places[-2]).vars:
        return None
    # A's last index counts the groups' elements, and rows are alone in the one before.
    along = uses(data.region[-1].min).vars
    row = spatial[-2]
    if not {group.var, step.var} <= along or row.var in along or column.var in set().union(*_vars(data)):
        return None
    row_step = _step_of(data.region[-2].min, row.var)
    if row.var in set().union(*_vars(weight)) or not row_step:
        return None
    if step_groups(extent[step]) < core.tile_groups or row_tiles(extent[row], core)[1] != extent[row]:
        return None
    packed = block.packed_read(column)
    if packed is None and places[-2] is not column.var:
        return None
    if len(reduction) == 2 and row_step == 1:
        panel = extent[column] if packed is None else packed[1]
        fits = extent[column] % panel == 0
        return _matrix(block, taken.kind, extent[row], panel, extent[step]) if fits else None
    line_step = _step_of(data.region[-3].min, spatial[-3].var) if len(spatial) == 5 else 0
    if packed is not None or len(reduction) != 5 or len(weight.region) != 7 or not line_step:
        return None
    return _blocks(block, taken.kind, extent[step], (line_step, row_step))


def _sums_products(block: BlockView) -> bool:
    """Whether a block adds up products of unchanged elements, starting at zero."""
    store, init = block.block.body, block.block.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore) or not isinstance(store.value, Add):
        return False
    product: Any = store.value.b
    sides = (product.a, product.b) if isinstance(product, Mul) else ()
    plain = [isinstance(x, Cast) and isinstance(x.value, BufferLoad) for x in sides]
    zero = isinstance(init.value, (IntImm, FloatImm)) and init.value.value == 0
    return plain == [True, True] and zero and isinstance(store.value.a, BufferLoad)


def _vars(region: BufferRegion) -> list[set[Var]]:
    return [uses(r.min).vars for r in region.region]


def _step_of(index: Any, var: Var) -> int:
    """The growth of an index with each step of a variable; 0 if it is not constant."""
    form = detect_linear_equation(index, [var])
    return form[0].value if form and isinstance(form[0], IntImm) and form[0].value > 0 else 0


def _matrix(block: BlockView, kind: str, rows: int, panel: int, groups: int) -> Found | None:
    widths = [w for w in (MOST_COLUMNS, SIDE) if panel % w == 0] or ([panel] if panel < SIDE else [])
    if not widths:
        return None
    tile = Tile(kind, max(divisors(rows, MOST_ROWS)), widths[0], step_groups(groups))
    steps = divisors(groups, SIDE)
    return (
        Found(tile, len(block.spatial) - 2, None, None, divisors(rows, MOST_ROWS), widths, steps) if tile.fits else None
    )


def _blocks(block: BlockView, kind: str, groups: int, strides: tuple[int, int]) -> Found | None:
    """A convolution on channel blocks, (N, panels, lines, rows, columns)."""
    _, panels, lines, rows, columns = (block.extents[block.block.iter_vars.index(v)] for v in block.spatial)
    height = max(divisors(rows, MOST_ROWS))
    together = 2 if height <= SIDE and lines % 2 == 0 and rows == height else 1
    widths = [w for w in (MOST_COLUMNS, SIDE) if columns % w == 0] or [columns]
    width = widths[0]
    # In groups of channels each panel reads channels of its own.
    shared = block.spatial[1].var not in set().union(*_vars(block.block.reads[0]))
    pair = 2 if panels % 2 == 0 and shared and width <= SIDE else 1
    tile = Tile(kind, height, width, step_groups(groups), pair, together, *strides)
    if not tile.fits:
        return None
    heights, steps = divisors(rows, MOST_ROWS), divisors(groups, SIDE)
    return Found(tile, 3, 2, 1, heights, widths, steps, divisors(pair, 2), divisors(together, 2))


def schedule_tiles(view: KernelView, block: BlockView, target: Target, found: Found) -> None:
    """Schedule a contraction by tiles, and its epilogue if it has one."""
    sch, tile = view.sch, chosen_tile(view.plan, block, found)
    by_axis = dict(zip(block.block.iter_vars, view.loops(block), strict=True))
    loops = [by_axis[v] for v in block.spatial]
    reduction = [by_axis[v] for v in block.reduction]
    work = block.iterations
    sizes = {len(loops) - 1: tile.columns, found.row: tile.rows}
    if found.line is not None and found.panel is not None:
        sizes.update({found.line: tile.lines, found.panel: tile.panels})
    outer: list[LoopRV] = []
    inner: list[LoopRV] = []
    for n, loop in enumerate(loops):
        if n not in sizes:
            outer.append(loop)
            continue
        far, near = sch.split(loop, [None, sizes[n]], disable_predication=True)
        outer.append(far)
        inner.append(near)
    if found.panel is None:
        # Tiles of rows come round again while one panel of weights is in the caches.
        outer = [*outer[:-2], outer[-1], outer[-2]]
    else:
        outer = [outer[0], outer[1], outer[4], *outer[2:4]]
    far, near = sch.split(reduction[-2], [None, tile.steps], disable_predication=True)
    sch.reorder(*outer, *reduction[:-2], far, *inner, near, reduction[-1])
    sums, epilogue = _attach(view, block, outer[-1])
    start, end = most_even(sch, outer, target.cpu.core.pieces * useful_threads(work, target))
    shared = sch.fuse(*outer[start:end]) if end - start > 1 else outer[start]
    at = shared if end == len(outer) else outer[-1]
    init = sch.decompose_reduction(block.rv, reduction[0] if len(reduction) > 2 else far)
    for each in epilogue:
        vectorize_tile(sch, each, at, target.cpu.lanes(32), unrolled=False)
    parallelize(view, block.name, [shared], work, target)
    first = _first_inside(view, init, at)
    sch.tensorize(first, tile.name(FILL))
    sch.tensorize(inner[0], tile.name(DOT))
    local = sch.get(sums).writes[0].buffer.scope() == "local"
    sch.tensorize(_first_inside(view, sums, at), tile.name(STORE_LOCAL if local else STORE))


def _attach(view: KernelView, block: BlockView, at: LoopRV) -> tuple[BlockRV, list[BlockRV]]:
    """The block that stores the sums of a tile, and its readers, if they can be computed tile by tile."""
    sch = view.sch
    consumers = view.consumers(block)
    alone = len(consumers) == 1 and consumers[0].is_injective and block.name not in view.outputs()
    sums = sch.cache_write(block.rv, 0, SCOPE)
    sch.reverse_compute_at(sums, at)
    if not alone:
        return sums, []
    # Refused where it reads other elements than those of one tile (a transposition, a window).
    with sch.tried(f"{consumers[0].name} tile by tile, on sums of tile registers") as step:
        sch.reverse_compute_at(consumers[0].rv, at)
    if step.refused:
        return sums, []
    sch.set_scope(sums, 0, "local")
    return sums, [consumers[0].rv]


def _first_inside(view: KernelView, rv: BlockRV, at: LoopRV) -> LoopRV:
    """The outermost loop of a block below another."""
    loops = view.loops(rv)
    return loops[[view.sch.get(loop) for loop in loops].index(view.sch.get(at)) + 1]


__all__ = ["Found", "by_tiles", "schedule_tiles", "tile_of"]
