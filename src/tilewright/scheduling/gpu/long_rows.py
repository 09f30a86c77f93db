"""Long reductions to few results: which are divided among blocks of threads, whose results a second kernel reduces.

Kernels of several stages (norms, softmax) whose rows are few and long are faster apart: each reduction in parts, and what reads the results
by all threads of the device. Together, a row has one block of threads, and the others of the device nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.product_tiles import L2_BYTES, LAUNCH_CYCLES
from tilewright.scheduling.gpu.threads import known, one_loop, parted
from tilewright.tir import IterVar

SHORT = 8
"""Reductions of fewer elements run in one thread each."""
LEAST_PART = 4096
"""Elements of a reduction, from which on it is divided among blocks of threads."""
TOGETHER, APART = FORMS = ("together", "apart")


def parts_of(view: KernelView, block: BlockView) -> int:
    """Among how many blocks of threads a reduction to few results is divided."""
    choices, model = _choices(view, block)
    return view.plan.choose(f"{block.name}.parts", model, lambda: choices) if choices else 1


def _choices(view: KernelView, block: BlockView) -> tuple[list[int], int]:
    """The numbers of parts of a reduction to choose from, none where its extents are not known, and the number that fills the device."""
    spatial, reduced = parted(view, block)
    rows, steps = known(view, spatial), known(view, reduced)
    if rows is None or steps is None or rows == 0:
        return [], 1
    wanted = 2 * max(facts_of(view.plan.target).multiprocessors, 1)
    choices = [n for n in divisors(steps, 8 * wanted) if n == 1 or steps // n >= SHORT]
    most = min(wanted // rows, steps // LEAST_PART)
    return choices, max([n for n in choices if n <= most], default=1)


def first_part(view: KernelView, block: BlockView, parts: int) -> BlockView:
    """Divides a reduction: a new block computes the parts, which the old one reduces."""
    _, reduced = parted(view, block)
    outer, _ = view.sch.split(one_loop(view, block, reduced), [parts, None], disable_predication=True)
    first = BlockView(view.sch, view.sch.rfactor(outer, 0))
    _spatial_first(view, block)
    return first


def _spatial_first(view: KernelView, block: BlockView) -> None:
    """Puts the axes of a reduction behind the others, as computes have them."""
    kinds = [v.iter_type != IterVar.DataPar for v in BlockView(view.sch, block.rv).block.iter_vars]
    view.sch.reorder_block_iter_var(block.rv, sorted(range(len(kinds)), key=lambda n: kinds[n]))


def run_apart(view: KernelView, blocks: Sequence[BlockView], stays: bool) -> bool:
    """Whether the stages of rows are kernels of their own. stays: whether a row stays in a block of threads from stage to stage."""
    reductions = [b for b in blocks if b.reduction]
    found = [_choices(view, b) for b in reductions]
    if not all([len(choices) > 1 for choices, _ in found]):
        return False
    largest = max(reductions, key=lambda b: b.iterations)
    spatial, reduced = parted(view, largest)
    rows, length = known(view, spatial) or 1, known(view, reduced) or 1
    size = length * max([r.buffer.dtype.bytes for r in largest.block.reads])
    many = max(facts_of(view.plan.target).multiprocessors, 1)
    together = -(-rows // many) * (1 if stays else len(blocks)) * size / L2_BYTES
    apart = len(blocks) * rows * size / (L2_BYTES * many) + 2 * len(reductions) * LAUNCH_CYCLES
    model = APART if apart < together and all([parts > 1 for _, parts in found]) else TOGETHER
    return view.plan.choose(f"{blocks[-1].name}.form", model, lambda: FORMS) == APART


__all__ = ["SHORT", "first_part", "parts_of", "run_apart"]
