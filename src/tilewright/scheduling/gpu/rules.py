"""The rules for GPUs, and the choice of a rule for a block.

A rule of ANCHORS looks at a whole kernel. It schedules the blocks that it knows, with what belongs to them (prologues that it reads
through shared memory, the epilogue), and says whether there were any. All other blocks get threads one by one:

attention      all stages of attention in one kernel, with an online softmax
products       products, and convolutions as products, on matrix units or in registers
windows        short reductions over windows (depthwise convolutions, pooling): strips of results in the registers of a thread
rows           reductions along rows (sums, softmax, layer norm): a warp or a block of threads for each
injective      element-wise blocks: vectors of 16 bytes; transposed reads by tiles in shared memory
columns        other reductions: neighbouring threads have neighbouring columns, and share long ones
threads        all other blocks: one thread an element, reductions one after the other

Programs in a certain order (scans, sorts, scatters) are divided among threads by their computes (topi/device_loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.scheduling.attempts import attempt
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.attention import schedule_attention
from tilewright.scheduling.gpu.columns import schedule_reduction
from tilewright.scheduling.gpu.injective import schedule_injective
from tilewright.scheduling.gpu.matrix_form import divide_groups
from tilewright.scheduling.gpu.products import is_product, schedule_products
from tilewright.scheduling.gpu.rows import is_row, schedule_rows
from tilewright.scheduling.gpu.threads import bind_elements, is_bound
from tilewright.scheduling.gpu.windows import schedule_windows
from tilewright.scheduling.inlining import inline_producers, keep_rows
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

ANCHORS: tuple[Callable[[KernelView, Target], bool], ...] = (
    schedule_attention,
    schedule_products,
    schedule_windows,
    schedule_rows,
)
"""Rules for kernels by their heaviest blocks. The first one that knows a kernel takes it."""


def schedule_gpu(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """The schedule with every block of a kernel bound to threads, as the plan decides. A rule that is refused what the model decides is
    given up, which `fallbacks` tell; a simpler one takes its place."""
    view = KernelView(sch, plan)
    for each in view.blocks():
        divide_groups(sch, each.rv)
    if all([is_row(view, b) for b in view.blocks() if b.reduction]):
        keep_rows(view)
    inline_producers(view, lambda v, block, consumers: feeds_product(consumers, target) or stays(v, block, consumers))
    for anchor in ANCHORS:
        took: list[bool] = []
        sch = _tried(sch, plan, partial(_anchored, anchor=anchor, target=target, plan=plan, took=took), anchor.__name__)
        if any(took):
            break
    for name in [b.name for b in KernelView(sch, plan).blocks()]:
        block = _named(sch, plan, name)
        if block is None or is_bound(KernelView(sch, plan), block):
            continue
        rule = schedule_injective if block.is_injective else schedule_reduction if block.reduction else bind_elements
        if rule is not bind_elements:
            sch = _tried(sch, plan, partial(_one, name=name, rule=rule, plan=plan), f"{rule.__name__} for {name}")
        block = _named(sch, plan, name)
        if block is not None and not is_bound(KernelView(sch, plan), block):
            bind_elements(KernelView(sch, plan), block)
    return sch


def _tried(sch: Schedule, plan: KernelPlan, rule: Callable[[Schedule], None], given_up: str) -> Schedule:
    """The schedule after a rule, which may be refused as long as nobody but the model decides."""
    if plan.given:
        rule(sch)
        return sch
    return attempt(sch, plan, rule, given_up)


def _anchored(
    sch: Schedule, anchor: Callable[[KernelView, Target], bool], target: Target, plan: KernelPlan, took: list[bool]
) -> None:
    took.append(anchor(KernelView(sch, plan), target))


def _one(sch: Schedule, name: str, rule: Callable[[KernelView, BlockView], None], plan: KernelPlan) -> None:
    view = KernelView(sch, plan)
    rule(view, next(b for b in view.blocks() if b.name == name))


def _named(sch: Schedule, plan: KernelPlan, name: str) -> BlockView | None:
    return next((b for b in KernelView(sch, plan).blocks() if b.name == name), None)


def feeds_product(consumers: Sequence[BlockView], target: Target) -> bool:
    """Whether a product reads a block, which it brings to its form in its own way."""
    return any([is_product(c.block, target) for c in consumers])


def stays(view: KernelView, block: BlockView, consumers: Sequence[BlockView]) -> bool:
    """Whether a block is computed apart: where inlined expensive work would be repeated."""
    if block.is_heavy and len(consumers) > 1:
        return True
    return block.is_heavy and any([c.is_opaque or c.iterations > block.iterations for c in consumers])


__all__ = ["schedule_gpu"]
