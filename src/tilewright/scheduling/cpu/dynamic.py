"""Kernels with dynamic dimensions: the same rules, block by block, as far as dynamic extents allow, in versions for
different sizes.
"""

from __future__ import annotations

from functools import partial

from tilewright.ir import IntImm
from tilewright.scheduling.attempts import attempt
from tilewright.scheduling.block_views import KernelView
from tilewright.scheduling.cpu.forms import dynamic_height
from tilewright.scheduling.cpu.injective import schedule_injective, schedule_reduction
from tilewright.scheduling.cpu.rules import has_own_loops, schedule_cpu, stays
from tilewright.scheduling.inlining import inline_producers
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.primitives.loop_nests.versions import rounds_up
from tilewright.topi.stages import IN_TILES


def schedule_versions(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """Schedule a kernel with dynamic sizes. If its rows are computed in whole tiles, add a version with tiles of twice
    the height, for sizes where these compute hardly more rows.
    """
    root = sch.get_block("root")
    versions = [root]
    (func,) = sch.state.functions.values()
    height = dynamic_height(plan)
    if rounds_up(sch.get(root), func.buffer_map.values(), height):
        if plan.once("dynamic.versions", 2, lambda: (1, 2)) == 2:
            versions = sch.add_version(root, height, 2 * height, IN_TILES)
    for version in reversed(versions):
        sch = schedule_symbolic(sch, target, plan, version)
    return sch


def has_symbolic_loops(sch: Schedule) -> bool:
    """Whether a block of a kernel has an axis of dynamic extent."""
    blocks = [sch.get(rv) for rv in sch.get_child_blocks(sch.get_block("root"))]
    axes = [v for block in blocks for v in block.iter_vars]
    return any([v.dom is not None and not isinstance(v.dom.extent, IntImm) for v in axes])


def schedule_symbolic(sch: Schedule, target: Target, plan: KernelPlan, root: BlockRV | None = None) -> Schedule:
    """Schedule the kernel as if its sizes were static. If that is refused for a dynamic size, schedule each block
    separately.

    A block that no rule fits keeps its loops. root: the block around those of the kernel.
    """
    whole = attempt(sch, plan, lambda s: schedule_cpu(s, target, plan, root), "the rules for static sizes")
    if whole is not sch:
        return whole
    inline_producers(KernelView(sch, plan, root), stays)
    for name in [block.name for block in KernelView(sch, plan, root).blocks()]:
        rule = partial(_schedule_block, name=name, target=target, plan=plan, root=root)
        sch = attempt(sch, plan, rule, f"vectors and threads of {name}")
    return sch


def _schedule_block(sch: Schedule, name: str, target: Target, plan: KernelPlan, root: BlockRV | None) -> None:
    view = KernelView(sch, plan, root)
    block = next(b for b in view.blocks() if b.name == name)
    if not block.is_opaque and has_own_loops(view, block):
        (schedule_injective if block.is_injective else schedule_reduction)(view, block, target)
