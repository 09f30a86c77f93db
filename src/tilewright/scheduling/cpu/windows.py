"""Windows that slide over each channel separately: depthwise convolutions and pooling on channel blocks.

for n, c, h, w, cv: for kh, kw: C[n, c, h, w, cv] += A[n, c, h + kh, w + kw, cv] * B[c, kh, kw, cv]
-->
parallel n, c, bands of rows:
  the padded rows that the band reads
  for rows of the band, tiles of columns:
    init; unrolled kernel offsets: unrolled columns: vectorized lanes; epilogue

Adjacent windows overlap, so a value that is loaded (and widened) once serves several of them. The padded input stays in
a near cache for its reader, or is not made: loads outside of the input read zeros from elsewhere (0.6 to 0.9 of the time).
"""

from __future__ import annotations

from math import prod

from tilewright.arith import detect_linear_equation
from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, extent_of, uses
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.epilogue import attach_epilogue, vectorize_tile
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.sharing import shares, useful_threads
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.tir import BufferRegion, BufferStore, ForKind, IterVar, Max, Min
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.tir.transform.block.nonzero_steps import NONZERO, padded_element
from tilewright.tir.transform.loop.partition import HINT
from tilewright.topi.stages import LANE_SUMS

CHOSEN = 24
"""Kernel offsets along the last axis up to which the addresses of columns outside of the input are chosen. With 31 of them, conditions do
not stay in registers."""

MOST_TILES, MOST_COPIED = 4, 1024
"""The tiles of a line of results, and the multiply-adds of three of them, up to which those at the border have programs of their own."""

MOST_ROWS = 8
"""Rows of an image that a tile of pooling reads beside each other, where each has several vectors: so many that the processor fetches
ahead of all."""


def is_windowed(block: BlockView) -> bool:
    """Whether a contraction, with static sizes, reads every operand along its vector axis, and several elements for each
    sum.
    """
    if len(block.spatial) < 3 or any([e >= 1 << 20 for e in block.extents]) or LANE_SUMS in block.block.annotations:
        return False
    vector = block.spatial[-1]
    if block.role_of(vector) != frozenset(range(len(block.operands))):
        return False
    return kernel_offsets_of(block) > 1


def kernel_offsets_of(block: BlockView) -> int:
    """The number of elements that are added up for each sum."""
    return prod([e for v, e in zip(block.block.iter_vars, block.extents, strict=True) if v in block.reduction])


def unrolled_offsets_of(block: BlockView, core: Core) -> int:
    """The kernel offsets that are unrolled: all, or where they are many, and have weights, those along the last axis."""
    every = kernel_offsets_of(block)
    if every <= core.unrolled_offsets or len(block.block.reads) == 1:
        return every
    return block.extents[block.block.iter_vars.index(block.reduction[-1])]


def by_windows(view: KernelView, block: BlockView, otherwise: str) -> bool:
    """Whether a windowed contraction is computed by this rule, as the plan decides: where its kernel offsets are few enough to be
    unrolled, and columns that are read for one result serve its neighbours. otherwise: the name of the other way to compute it."""
    core = view.plan.target.cpu.core
    unrolled = unrolled_offsets_of(block, core)
    few = unrolled <= core.unrolled_offsets and (unrolled == kernel_offsets_of(block) or not _is_dilated(block))
    model, choices = ("windows" if few else otherwise), ("windows", otherwise)
    return view.plan.once(f"{block.name}.rule", model, lambda: choices) == "windows"


def _is_dilated(block: BlockView) -> bool:
    """Whether kernel offsets along the last axis are more than one element apart."""
    indices = [r.min for read in block.block.reads for r in read.region]
    forms = [detect_linear_equation(index, [block.reduction[-1].var]) for index in indices]
    return any([bool(form) and isinstance(form[0], IntImm) and form[0].value > 1 for form in forms])


def is_strided(block: BlockView, target: Target) -> bool:
    """Whether such windows read elements at a small stride from rows along their vector axis."""
    if not block.reduction or not block.spatial or len(block.block.writes) != 1 or block.block.init is None:
        return False
    axis = block.spatial[-1]
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    extent = block.extents[block.block.iter_vars.index(axis)]
    if not is_windowed(block) or extent % vector_width(extent, lanes) or vector_width(extent, lanes) == 1:
        return False
    *_, last = block.block.writes[0].region
    return last.min is axis.var and all([_steps(r, axis, target.cpu.core) for r in block.block.reads])


def _steps(region: BufferRegion, axis: IterVar, core: Core) -> bool:
    """Whether an axis runs along the last dimension of a read in small steps above 1."""
    *outer, last = [r.min for r in region.region]
    if any([axis.var in uses(e).vars for e in outer]):
        return False
    form = detect_linear_equation(last, [axis.var])
    return bool(form) and isinstance(form[0], IntImm) and 1 < form[0].value <= core.near


def column_tile(columns: int, kernel_offsets: int, weights: bool, core: Core, held: int = 1) -> int:
    """The number of columns to compute at once, such that registers remain for the weights of all kernel offsets, or
    else of one.

    If it does not divide the number of columns, the last tile is narrower. held: registers that each column takes.
    """
    registers = core.registers
    kept = kernel_offsets + 2 if weights and kernel_offsets + 2 + core.in_flight <= registers else 4
    unrolled = (core.window_tile if weights else core.window_body) // kernel_offsets
    most = max(1, min(columns, (registers - kept) // held, max(4, unrolled)))

    def cycles(tile: int) -> float:
        """Of one kernel offset over all columns: the multiply-adds, the next of a sum only when the last is done; a load of a weight."""
        return max(tile / core.multiply_adds, core.latency) + 1 / core.loads if tile else 0.0

    def rank(tile: int) -> tuple[float, int]:
        whole, rest = divmod(columns, tile)
        return (whole * cycles(tile) + cycles(rest)) * (core.narrow_tile if rest else 1), -tile

    return min(range(1, most + 1), key=rank)


def schedule_windows(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one such contraction, with the padding of its input and its epilogue."""
    sch, cpu = view.sch, target.cpu
    work = block.iterations
    _inline_padding(view, block)
    loops = view.loops(block)
    by_axis = dict(zip(block.block.iter_vars, loops, strict=True))
    lanes = vector_width(
        extent_of(sch.get(by_axis[block.spatial[-1]])), cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    )
    *channels, row, column, vector = [by_axis[v] for v in block.spatial]
    reduction = [by_axis[v] for v in block.reduction]
    rows, columns = extent_of(sch.get(row)), extent_of(sch.get(column))
    extents = [extent_of(sch.get(loop)) for loop in reduction]
    weights = len(block.block.reads) > 1
    # Extremes tested for NaN keep an operand beside each result, until the next one shares its test.
    value = block.block.body.value if isinstance(block.block.body, BufferStore) else None
    tested = isinstance(value, (Max, Min)) and value.dtype.is_float and not cpu.extremes_keep_nan
    far = not weights and extent_of(sch.get(vector)) > lanes
    most = min(columns, max(2, MOST_ROWS // _row_stride(block))) if far else columns
    model = column_tile(most, unrolled_offsets_of(block, cpu.core), weights, cpu.core, 2 if tested else 1)
    tile = view.plan.choose(f"{block.name}.columns", model, lambda: range(1, min(columns, cpu.core.registers) + 1))

    wide, vector = sch.split(vector, [None, lanes])
    column_outer, column_inner = sch.split(column, [None, tile])
    outside = prod([extent_of(sch.get(loop)) for loop in channels])
    threads = useful_threads(work, target)
    model = _band(view, block, rows, outside, threads, cpu.core)
    band = view.plan.choose(f"{block.name}.band", model, lambda: divisors(rows, rows))
    bands, row_inner = sch.split(row, [None, band])
    sch.reorder(*channels, bands, row_inner, column_outer, wide, *reduction, column_inner, vector)
    epilogue = attach_epilogue(view, block, wide)
    _attach_padding(view, block, bands, target)
    # What is computed in bands overlaps, and is seen through before loops are fused.
    shared = sch.fuse(*channels, bands)
    model = _serial(reduction, extents, tile, cpu.core)
    serial = view.plan.choose(f"{block.name}.serial", model, lambda: range(len(reduction)))
    init = sch.decompose_reduction(block.rv, reduction[0])
    _leave_out_padding(view, block, column_outer, columns % tile > 0, tile * prod(extents[serial:]))
    for loop in reduction[serial:]:
        sch.unroll(loop)
    sch.unroll(column_inner)
    sch.vectorize(vector)
    for each in (init, *epilogue):
        vectorize_tile(sch, each, wide, lanes)
    if extent_of(sch.get(shared)) > 1 and shares(view, block.name, work, target):
        sch.parallel(shared)


def _row_stride(block: BlockView) -> int:
    """The rows of the data from one row of results to the next."""
    (read,) = block.block.reads
    form = detect_linear_equation(read.region[-2].min, [block.spatial[-2].var])
    return form[0].value if form and isinstance(form[0], IntImm) and form[0].value > 0 else 1


def _serial(reduction: list[LoopRV], extents: list[int], tile: int, core: Core) -> int:
    """The number of outer reduction loops that stay loops, so that the body is not too long."""
    for outer in range(len(reduction)):
        if prod(extents[outer:]) * tile <= core.window_body:
            return outer
    return len(reduction) - 1


def _band(view: KernelView, block: BlockView, rows: int, outside: int, threads: int, core: Core) -> int:
    """The number of rows that are computed together: the smallest that keeps the padded input small and all threads
    busy.
    """
    producers = [BlockView(view.sch, rv) for rv in view.sch.get_producers(block.rv)]
    size = sum([prod(p.extents[-3:]) * p.block.writes[0].buffer.dtype.bytes for p in producers])
    bands = max(1, -(-size // core.band))
    if outside * bands < 4 * threads:
        bands = -(-4 * threads // outside)
    # Each band pads again what the one before reads below its last row: at least four rows. Channels have nothing in common.
    axis = block.spatial[-3].var
    alone = any([r.min is axis for read in block.block.reads for r in read.region])
    most = rows if alone else max(1, rows // 4)
    choices = [b for b in divisors(rows, rows) if b >= min(bands, most)]
    return rows // (choices[0] if choices else 1)


def _leave_out_padding(view: KernelView, block: BlockView, tiles: LoopRV, narrower: bool, body: int) -> None:
    """Where the input is read without a padded copy, add nothing for elements outside of it, instead of zeros, as the plan decides: outside
    of its rows, or of its columns too.

    The rows of a kernel are tested one by one. Tiles of columns at the border have a program of their own, in which nothing is tested;
    `body` is the multiply-adds of each, and the last tile may be `narrower`. Medians on an AMD EPYC (Zen 5), one thread, beside the
    addition of zeros: 0.67 for 5 x 5 over 7 x 7 pixels, 0.57 for 7 x 7, 0.82 for 3 x 3; 0.83 and 0.93 for 5 x 5 and 3 x 3 over 14 x 14;
    0.84 for 3 x 3 over 56 x 56, where addresses were chosen before. With seven tiles a line, columns took longer than rows alone.
    """
    sch = view.sch
    if padded_element(sch.get(block.rv).body) is None:
        return
    count = extent_of(sch.get(tiles))
    model = "columns" if count + narrower <= MOST_TILES and min(count, 3) * body <= MOST_COPIED else "rows"
    left_out = view.plan.choose(f"{block.name}.zeros", model, lambda: ("add", "rows", "columns"))
    if left_out == "add":
        return
    tested = [*block.reduction, *block.spatial[: -1 if left_out == "columns" else -2]]
    sch.annotate(block.rv, NONZERO, [i for i, axis in enumerate(block.block.iter_vars) if axis in tested])
    if left_out == "columns" and count > 1:
        sch.annotate(tiles, HINT, 1)


def _inline_padding(view: KernelView, block: BlockView) -> None:
    """Read the input without a padded copy, as the plan decides: a load outside of the input has the address of zeros instead. LLVM chooses
    addresses without branches.
    """
    along = block.extents[block.block.iter_vars.index(block.reduction[-1])]
    model = "in place" if view.plan.target.kind.name == "llvm" and along <= CHOSEN else "copy"
    for rv in view.sch.get_producers(block.rv):
        producer = BlockView(view.sch, rv)
        if not producer.is_padding or len(view.consumers(producer)) != 1 or _is_scheduled(view, rv):
            continue
        if view.plan.choose(f"{producer.name}.padding", model, lambda: ("copy", "in place")) == "in place":
            view.sch.compute_inline(rv)


def _is_scheduled(view: KernelView, rv: BlockRV) -> bool:
    """Whether a rule has changed a block's loops. The initialisation of an earlier reduction is no padding."""
    return bool(view.sch.get(view.loops(rv)[-1]).kind != ForKind.SERIAL)


def _attach_padding(view: KernelView, block: BlockView, bands: LoopRV, target: Target) -> None:
    """Move data that only this block needs (its padded input) into the loop over bands."""
    sch = view.sch
    for rv in sch.get_producers(block.rv):
        producer = BlockView(view.sch, rv)
        if not producer.is_injective or len(view.consumers(producer)) != 1:
            continue
        inner = sch.get_loops(rv)[-1]
        if _is_scheduled(view, rv):
            continue
        width = vector_width(extent_of(sch.get(inner)), target.cpu.lanes(producer.block.writes[0].buffer.dtype.bits))
        if width > 1 and extent_of(sch.get(inner)) % width == 0:
            # A vector is a block, and stays one where the loops around it overlap.
            _, vector = sch.split(inner, [None, width])
            sch.vectorize(vector)
            rv = sch.blockize(vector)
        # Refused where its readers want more of it than one band.
        with sch.tried(f"{producer.name} band by band"):
            sch.compute_at(rv, bands)


__all__ = ["by_windows", "is_strided", "is_windowed", "schedule_windows"]
