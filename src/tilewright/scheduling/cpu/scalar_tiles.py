"""Products on processors without vectors (Cortex-M, RV32): tiles of sums in registers, so that an element is loaded once for several sums.

for lines:
  what is copied of the operands for a line (padded data)
  for tiles of rows: for tiles of columns:
    init rows x columns
    for the reduction: unrolled steps: unrolled rows: unrolled columns: sum += a * b
    epilogue of rows x columns
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir import DataType, IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.epilogue import attach_epilogue
from tilewright.scheduling.cpu.paired import loops_below
from tilewright.target import Target
from tilewright.tir import IterVar
from tilewright.tir.schedule import LoopRV

MOST_ROWS = MOST_COLUMNS = 8
BODY = 12
"""Products in the body of a loop, about."""
LOOP = 4
"""Instructions of a step of the reduction besides products and loads: a comparison, a branch, and two additions to addresses."""


class Registers(NamedTuple):
    """What a processor has for a tile: registers for sums and loaded elements, instructions of a multiply-add."""

    free: int
    multiply_add: int


def is_scalar_product(block: BlockView, target: Target) -> bool:
    """Whether a block sums products of two tensors, for a processor that computes one at a time."""
    if target.cpu.vector_bits > 32 or len(block.block.writes) != 1 or block.block.init is None or not block.reduction:
        return False
    known = all([v.dom is not None and isinstance(v.dom.extent, IntImm) for v in block.block.iter_vars])
    bits = block.block.writes[0].buffer.dtype.bits
    return known and len(block.operands) == 2 and bits <= 32 and bool(_row(block) or _column(block))


def registers_of(target: Target, dtype: DataType) -> Registers:
    """The registers for sums of a type: of the unit for floats, where there is one; of 16 or 32 general registers those that are not
    addresses or counters, of which the first instructions of Arm's (thumbv6m, thumbv8m.base) reach eight."""
    cpu = target.cpu
    if dtype.is_float and cpu.fma:
        return Registers(28, 1)
    if cpu.arch == "riscv":
        return Registers(20, 2)
    small = target.triple.startswith(("thumbv6m", "thumbv8m.base"))
    return Registers(5, 2) if small else Registers(9, 1)


def tile_costs(rows: int, columns: int, registers: Registers) -> dict[tuple[int, int], float]:
    """The instructions for a product of each of `rows` x `columns` sums, by the tiles that registers hold."""
    found = {}
    for r in divisors(rows, MOST_ROWS):
        for c in divisors(columns, MOST_COLUMNS):
            if r * c + min(r, c) + 1 <= registers.free or r * c == 1:
                steps = max(BODY // (r * c), 1)
                found[r, c] = registers.multiply_add + (r + c + LOOP / steps) / (r * c)
    return found


def schedule_scalar_product(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one product, and its epilogue."""
    sch = view.sch
    by_axis = dict(zip(block.block.iter_vars, view.loops(block), strict=True))
    row, column = _row(block), _column(block)
    rows, columns = (divisor_of(sch.get(by_axis[a]).extent) if a is not None else 1 for a in (row, column))
    costs = tile_costs(rows, columns, registers_of(target, block.block.writes[0].buffer.dtype))
    model = min(costs, key=lambda tile: (round(costs[tile], 3), tile[0] * tile[1]))
    sides = view.plan.choose(f"{block.name}.tile", model, lambda: list(costs))
    outer = lines = [by_axis[axis] for axis in block.spatial if axis not in (row, column)]
    inner: list[LoopRV] = []
    for axis, side in zip((row, column), sides, strict=True):
        if axis is not None:
            around, within = sch.split(by_axis[axis], [None, side], disable_predication=True)
            outer, inner = [*outer, around], [*inner, within]
    *reduced, last = [by_axis[axis] for axis in block.reduction]
    steps = divisor_of(sch.get(last).extent)
    few = max(divisors(steps, max(BODY // (sides[0] * sides[1]), 1)))
    together = view.plan.choose(f"{block.name}.unroll", few, lambda: divisors(steps, 8))
    last, unrolled = sch.split(last, [None, together], disable_predication=True)
    sch.reorder(*outer, *reduced, last, unrolled, *inner)
    epilogue = attach_epilogue(view, block, outer[-1])
    if lines:
        _copy_by_lines(view, block, lines[-1])
    init = sch.decompose_reduction(block.rv, reduced[0] if reduced else last)
    for loop in (unrolled, *inner):
        sch.unroll(loop)
    for each in (init, *epilogue):
        for loop in loops_below(view, each, outer[-1]):
            sch.unroll(loop)


def _copy_by_lines(view: KernelView, block: BlockView, line: LoopRV) -> None:
    """Compute copies of operands for each line anew: copies of whole images, such as padded ones, would take as much memory as these."""
    for rv in view.sch.get_producers(block.rv):
        producer = BlockView(view.sch, rv)
        if producer.is_injective and len(view.consumers(producer)) == 1:
            # Refused where a line needs no part of it alone.
            with view.sch.tried(f"{producer.name} line by line"):
                view.sch.compute_at(rv, line)


def _row(block: BlockView) -> IterVar | None:
    """The last axis along which only the first operand changes."""
    return _last(block, 0)


def _column(block: BlockView) -> IterVar | None:
    """The last axis along which only the second operand changes."""
    return _last(block, 1)


def _last(block: BlockView, place: int) -> IterVar | None:
    found = [axis for axis in block.spatial if block.role_of(axis) == frozenset([place])]
    extents = dict(zip(block.block.iter_vars, block.extents, strict=True))
    return next((axis for axis in reversed(found) if extents[axis] > 1), None)


__all__ = ["is_scalar_product", "schedule_scalar_product", "tile_costs"]
