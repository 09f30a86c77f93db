"""Kernels with dynamic dimensions: the same rules, block by block, as far as dynamic extents allow, in versions for
different sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on, post_order_visit, structural_equal
from tilewright.scheduling.cost import DYNAMIC_ROWS, whole_tiles
from tilewright.scheduling.cpu.injective import schedule_injective, schedule_reduction
from tilewright.scheduling.cpu.kernel import KernelView
from tilewright.scheduling.cpu.rules import has_own_loops, inline_producers, schedule_cpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir import EQ, LE, Add, Block, BlockRealize, Buffer, BufferStore, FloorDiv, IfThenElse, Mul, PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tir.stmt_functor import renew_body
from tilewright.tir.substitution import BufferMutator
from tilewright.topi.stages import IN_TILES


def schedule_versions(func: PrimFunc, target: Target, plan: KernelPlan) -> PrimFunc:
    """Schedule a kernel with dynamic sizes. If its rows are computed in whole tiles, add a version with tiles of twice
    the height.

    It runs for sizes where these compute hardly more rows: if (d + 7) // 8 * 8 * 16 <= (d + 3) // 4 * 4 * 17: tiles of
    8 rows, else: tiles of 4.
    """
    narrow = _scheduled(func, target, plan)
    found = _Doubled()
    doubled = found.visit(func.body)
    if found.size is None:
        return narrow
    wide = _scheduled(func.replace(body=doubled), target, plan)
    rows, more = whole_tiles(found.size, DYNAMIC_ROWS), whole_tiles(found.size, 2 * DYNAMIC_ROWS)
    # What is rounded up for other reasons than tiles must stay what it is.
    condition = LE(more * 16, rows * 17) if _only_in_tiles(func) else EQ(rows, more)
    assert isinstance(narrow.body, BlockRealize)
    both = IfThenElse(condition, wide.body, renew_body(narrow))
    outer = narrow.body.block.replace(alloc_buffers=(), body=both, annotations={})
    return func.replace(body=narrow.body.replace(block=outer))


def _only_in_tiles(func: PrimFunc) -> bool:
    """Whether only the domains of blocks that compute rows in whole tiles are rounded up to tiles."""
    parts: list[Any] = [d for b in func.buffer_map.values() for d in b.shape]

    def look(e: Any) -> None:
        if isinstance(e, Block) and IN_TILES not in e.annotations:
            parts.extend([iv.dom.extent for iv in e.iter_vars if iv.dom is not None])
        elif isinstance(e, BufferStore):
            parts.extend([e.value, *e.indices])

    post_order_visit(func.body, look)
    found = _Rounded()
    for part in parts:
        found.visit(part)
    return not found.any


class _Rounded(Visitor):
    """Whether an expression rounds up to tiles. The shapes of buffers that it reads do not count."""

    def __init__(self) -> None:
        self.any = False

    @on(Buffer)
    def _buffer(self, b: Buffer) -> None:
        pass

    @on(Mul)
    def _mul(self, e: Mul) -> None:
        self.any = self.any or rounded_up(e, DYNAMIC_ROWS) is not None
        self.visit_children(e)


def _scheduled(func: PrimFunc, target: Target, plan: KernelPlan) -> PrimFunc:
    sch = schedule_symbolic(Schedule(func, seed=0, error_render_level="fast"), target, plan)
    (scheduled,) = sch.mod.functions.values()
    assert isinstance(scheduled, PrimFunc)
    return scheduled


class _Doubled(BufferMutator):
    """Doubles the height of tiles, for rows of one size that come in whole tiles."""

    def __init__(self) -> None:
        super().__init__()
        self.size: PrimExpr | None = None

    @on(Mul)
    def _mul(self, e: Mul) -> PrimExpr:
        size = rounded_up(e, DYNAMIC_ROWS)
        if size is None or self.size is not None and not structural_equal(size, self.size):
            return self.rebuild(e)  # type: ignore[no-any-return]
        self.size = size
        return whole_tiles(size, 2 * DYNAMIC_ROWS)  # type: ignore[no-any-return]


def rounded_up(e: Mul, tile: int) -> PrimExpr | None:
    """The size d of an expression (d + tile - 1) // tile * tile, else None."""
    if not (isinstance(e.b, IntImm) and e.b.value == tile and isinstance(e.a, FloorDiv)):
        return None
    total, by = e.a.a, e.a.b
    if not (isinstance(by, IntImm) and by.value == tile and isinstance(total, Add)):
        return None
    return total.a if isinstance(total.b, IntImm) and total.b.value == tile - 1 else None


def has_symbolic_loops(sch: Schedule) -> bool:
    """Whether a block of a kernel has an axis of dynamic extent."""
    blocks = [sch.get(rv) for rv in sch.get_child_blocks(sch.get_block("root"))]
    axes = [v for block in blocks for v in block.iter_vars]
    return any([v.dom is not None and not isinstance(v.dom.extent, IntImm) for v in axes])


def schedule_symbolic(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """Schedule the kernel as if its sizes were static. If that is refused for a dynamic size, schedule each block
    separately.

    A block that no rule fits keeps its loops.
    """
    whole = attempt(sch, plan, lambda s: schedule_cpu(s, target, plan))
    if whole is not sch:
        return whole
    inline_producers(KernelView(sch, plan))
    for name in [block.name for block in KernelView(sch, plan).blocks()]:
        sch = attempt(sch, plan, partial(_schedule_block, name=name, target=target, plan=plan))
    return sch


def _schedule_block(sch: Schedule, name: str, target: Target, plan: KernelPlan) -> None:
    view = KernelView(sch, plan)
    block = next(b for b in view.blocks() if b.name == name)
    if not block.is_opaque and has_own_loops(view, block):
        (schedule_injective if block.is_injective else schedule_reduction)(view, block, target)


def attempt(sch: Schedule, plan: KernelPlan, rule: Callable[[Schedule], None]) -> Schedule:
    """The schedule after a rule, or the given one, and the decisions before it, if the rule does not apply."""
    trial, decided = sch.copy(), dict(plan.decisions)
    try:
        rule(trial)
    except ScheduleError:
        plan.decisions = decided
        return sch
    return trial
