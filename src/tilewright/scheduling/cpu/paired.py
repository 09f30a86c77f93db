"""Products of pairs of 16-bit numbers in general registers: convolutions and dense layers of bytes on processors with Arm's DSP extension.

for lines: for tiles of places:
  strip: widened data of the tile; that of one row of a dense layer is widened in the innermost loop
  for filters (t at once):
    init t x places
    for kernel rows: for groups: unrolled columns: unrolled t: unrolled places: sum += two pairs * two pairs
    epilogue of t x places
"""

from __future__ import annotations

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of, extent_of
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.epilogue import attach_epilogue
from tilewright.scheduling.pairs import UNROLLED
from tilewright.target import Target
from tilewright.tir import FloorMod
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.tir.tensor_intrin.arm_dsp import SMLA_4_INTRIN, SXTB16_4_INTRIN, SMLAD_1x4_INTRIN
from tilewright.topi.nn.paired_conv import MOST_LINES
from tilewright.topi.stages import PAIRED, PAIRED_CHANNELS, WIDENED_APART

MOST_PRODUCTS = 32
"""Products of four channels in the body of a loop, at most."""
STRIP_BYTES = 3072
"""Bytes of widened data, about: they lie on the stack."""


def is_paired_channels(block: BlockView, target: Target) -> bool:
    """Whether a block sums products of four channels, each on its own, by instructions that the target has."""
    return PAIRED_CHANNELS in block.block.annotations and target.cpu.pairs


def is_paired(block: BlockView, target: Target) -> bool:
    """Whether a block sums products of pairs, by instructions that the target has."""
    return PAIRED in block.block.annotations and target.cpu.pairs


def schedule_paired(view: KernelView, block: BlockView) -> None:
    """Schedule one product of pairs, with its data and its epilogue."""
    sch, places = view.sch, int(block.block.annotations[PAIRED])
    (strip,) = sch.get_producers(block.rv)
    loops = view.loops(block)
    reduced = len(block.spatial)
    *lines, place, filters = loops[:reduced]
    *steps, half, pair = loops[reduced:]
    together = filters_together(block)
    tile, place = sch.split(place, [None, places], disable_predication=True)
    panel, filter_ = sch.split(filters, [None, together], disable_predication=True)
    unrolled = unrolled_steps(view, block, steps)
    sch.reorder(*lines, tile, panel, *steps, *unrolled, filter_, place, half, pair)
    epilogue = attach_epilogue(view, block, panel)
    sch.compute_at(strip, unrolled[-1] if WIDENED_APART in block.block.annotations else tile)
    _widen(view, strip)
    init = sch.decompose_reduction(block.rv, steps[0] if steps else unrolled[0])
    for loop in (*unrolled, filter_, place):
        sch.unroll(loop)
    for each in (init, *epilogue):
        for loop in loops_below(view, each, panel):
            sch.unroll(loop)
    sch.tensorize(half, SMLAD_1x4_INTRIN)


def schedule_paired_channels(view: KernelView, block: BlockView) -> None:
    """Schedule a depthwise convolution: for bands of rows and groups of four channels, widened data, then tiles of places."""
    sch, places = view.sch, int(block.block.annotations[PAIRED_CHANNELS])
    (strip,) = sch.get_producers(block.rv)
    image, line, place, channel, *steps, one = view.loops(block)
    band, line = sch.split(line, [None, _band_rows(view, block, strip)], disable_predication=True)
    tile, place = sch.split(place, [None, places], disable_predication=True)
    group, four = sch.split(channel, [None, 4], disable_predication=True)
    sch.reorder(image, band, group, line, tile, *steps, place, four, one)
    epilogue = attach_epilogue(view, block, tile)
    sch.compute_at(strip, group)
    _widen(view, strip)
    init = sch.decompose_reduction(block.rv, steps[0])
    rounds = 1
    for loop in reversed([*steps, place]):
        rounds *= extent_of(sch.get(loop))
        if rounds <= MOST_PRODUCTS:
            sch.unroll(loop)
    for each in (init, *epilogue):
        for loop in loops_below(view, each, tile):
            sch.unroll(loop)
    sch.tensorize(four, SMLA_4_INTRIN)


def _band_rows(view: KernelView, block: BlockView, strip: BlockRV) -> int:
    """Rows of results for which the data of four channels is widened at once: so many that little is widened twice, in little memory."""
    *_, lines, columns, _ = BlockView(view.sch, strip).extents
    rows = block.extents[1]
    kernel = block.extents[block.block.iter_vars.index(block.reduction[0])]
    step = (lines - kernel) // (rows - 1) if rows > 1 else 1
    fits = [n for n in divisors(rows, MOST_LINES) if ((n - 1) * step + kernel) * columns * 8 <= STRIP_BYTES] or [1]
    return view.plan.choose(f"{block.name}.rows", max(fits), lambda: divisors(rows, MOST_LINES))


def _widen(view: KernelView, strip: BlockRV) -> None:
    """Schedule the widening of a tile's data: four bytes at a time, from a register."""
    sch = view.sch
    (groups,) = sch.get_producers(strip)
    *_, around, four = sch.get_loops(strip)
    sch.compute_at(groups, around)
    sch.set_scope(groups, 0, "local")
    # Refused where the bytes of a group are not side by side, or not all within the data.
    with sch.tried(f"vectors of {sch.get(groups).name_hint}") as step:
        sch.vectorize(sch.get_loops(groups)[-1])
    if step.refused:
        sch.unroll(sch.get_loops(groups)[-1])
    sch.tensorize(four, SXTB16_4_INTRIN)


def filters_together(block: BlockView) -> int:
    """The filters of a panel of weights."""
    weights = block.operands[1].region
    found = [r.min.b.value for r in weights if isinstance(r.min, FloorMod) and isinstance(r.min.b, IntImm)]
    return found[0] if found else 1


def unrolled_steps(view: KernelView, block: BlockView, steps: list[LoopRV]) -> list[LoopRV]:
    """The loops that are unrolled in the innermost one: over columns, or a part of that over groups. Takes them from `steps`."""
    sch = view.sch
    if len(steps) > 1 and extent_of(sch.get(steps[-1])) > 1:
        return [steps.pop()]
    columns = [steps.pop()] if len(steps) > 1 else []
    count = divisor_of(sch.get(steps[-1]).extent)
    model = max(divisors(count, UNROLLED))
    factor = view.plan.choose(f"{block.name}.unroll", model, lambda: divisors(count, 8))
    steps[-1], inner = sch.split(steps[-1], [None, factor], disable_predication=True)
    return [inner, *columns]


def loops_below(view: KernelView, block: BlockRV, panel: LoopRV) -> list[LoopRV]:
    """The loops of a block inside the loop over panels."""
    sch = view.sch
    loops = sch.get_loops(block)
    return loops[[sch.get(loop) for loop in loops].index(sch.get(panel)) + 1 :]


__all__ = [
    "filters_together",
    "is_paired",
    "is_paired_channels",
    "loops_below",
    "schedule_paired",
    "schedule_paired_channels",
    "unrolled_steps",
]
