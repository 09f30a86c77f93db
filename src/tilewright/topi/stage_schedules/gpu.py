"""Loops of stages for GPUs, bound to blocks and threads.

A stage without reduction has a thread for each element. A reduction with few results has a block of threads for each of them, which
add up parts. Products of two operands have tiles of results in registers, whose operands all threads of a block bring into shared
memory. In other reductions, such as convolutions, a thread computes several results that share what they load, or a single one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright import te
from tilewright.target import Target
from tilewright.tir.expr import IterVar
from tilewright.topi.stage_schedules import StageGraph, extent, is_reduction, loads_of
from tilewright.topi.stage_schedules.operands import divisor, reused_axis, uses
from tilewright.topi.template_stages import axes_of, reduced
from tilewright.topi.utils import prod

FEW = 4096
"""With fewer results than this, the threads of a block share the reduction of one."""
WARP = 32
"""The fewest threads of a block that run as fast as one."""
SIDE = 16
"""Threads along a side of a tile of a product."""


class Loops(NamedTuple):
    """Sizes of loops. threads: of a block of stages without tiles, where the target allows as many. own: results of a thread along a side
    of a tile. deep: reduced elements of a tile that are in shared memory at once."""

    threads: int = 256
    own: int = 4
    deep: int = 8


DEFAULT = Loops()


def template_gpu(outs: Any, cfg: Any) -> te.Schedule:
    """`schedule_gpu` by the knobs of a template, if there are any."""
    if cfg is None:
        return schedule_gpu(outs)
    cfg.define_knob("threads", [256, 64, 128, 512])
    cfg.define_knob("own", [4, 2, 8])
    cfg.define_knob("deep", [8, 4, 16, 32])
    return schedule_gpu(outs, Loops(cfg["threads"].val, cfg["own"].val, cfg["deep"].val))


def schedule_gpu(outs: Any, loops: Loops = DEFAULT) -> te.Schedule:
    """A schedule of outputs and of all that they need, for the current target (or any GPU of at least 256 threads)."""
    graph = StageGraph(outs, windows_inlined=True)
    for op in graph.computed:
        tensor = op.output(0)
        end = graph.ends.get(op)
        last = tensor if end is None else end.output(0)
        if is_reduction(op) and _is_product(op, loops):
            _tiles(graph.schedule, tensor, last, loops)
        elif is_reduction(op) and _has_few_results(op):
            _shared_reduction(graph.schedule, tensor, loops)
            if end is not None:
                spread_threads(graph.schedule, last, loops.threads)
        elif is_reduction(op) and _thread_tiles(graph.schedule, tensor, last, loops):
            continue
        else:
            whole = end is not None and _whole_blocks(end, loops.threads)
            if end is not None and whole is None:
                spread_threads(graph.schedule, tensor, loops.threads)
            thread = spread_threads(graph.schedule, last, whole or loops.threads)
            if whole:
                graph.schedule[tensor].set_scope("local")
                graph.schedule[tensor].compute_at(graph.schedule[last], thread)
    return graph.schedule


def _thread_tiles(s: te.Schedule, made: te.Tensor, tensor: te.Tensor, loops: Loops) -> bool:
    """Several results for each thread, which share what they load, such as the same place of several filters of a convolution. Returns
    False where no axis shares loads, or where blocks would not be whole. tensor: what takes the results."""
    op: Any = s[made].op
    shared = reused_axis(op, of_neighbours=True) if len(op.body) == 1 else None
    sizes = [extent(a) for a in op.axis]
    if shared is None or not all([d is not None for d in sizes]):
        return False
    place = list(op.axis).index(shared)
    own = divisor(extent(shared) or 1, 2 * loops.own)
    threads = _dividing(prod(sizes) // own, loops.threads)
    if own == 1 or threads is None or prod(sizes) // own < FEW:
        return False
    if made is tensor:
        acc = s.cache_write(made, "local")
    else:
        acc = made
        s[made].set_scope("local")
    axes = axes_of(s, tensor)
    axes[place], inner = s[tensor].split(axes[place], own)
    s[tensor].reorder(*axes, inner)
    block, thread = s[tensor].split(s[tensor].fuse(*axes), threads)
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    s[tensor].unroll(inner)
    s[acc].compute_at(s[tensor], thread)
    inside = axes_of(s, acc)
    s[acc].reorder(*[a for k, a in enumerate(inside) if k != place], *reduced(s, acc), inside[place])
    s[acc].unroll(inside[place])
    return True


def _dividing(total: int, threads: int) -> int | None:
    """The most threads, at least a warp's, that divide a number; None if there is no such number."""
    return next((n for n in range(allowed(threads), WARP - 1, -1) if total % n == 0), None)


def _whole_blocks(op: te.ComputeOp, threads: int) -> int | None:
    """The most threads, at least a warp's, that divide the elements of an operation; None if there is no such number."""
    return _dividing(prod([extent(a) or 1 for a in op.axis]), threads)


def allowed(threads: int) -> int:
    """The threads of a block, at most those that the target allows."""
    target = Target.current(True)
    most = target.max_num_threads if target is not None else threads
    return min(threads, most) if most > 1 else threads


def spread_threads(s: te.Schedule, tensor: te.Tensor, threads: int = 256) -> IterVar:
    """A thread for each element of a stage, in blocks. Returns the axis of threads."""
    axes = axes_of(s, tensor)
    whole = s[tensor].fuse(*axes) if len(axes) != 1 else axes[0]
    block, thread = s[tensor].split(whole, allowed(threads))
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    return thread


def _has_few_results(op: te.ComputeOp) -> bool:
    results, depths = prod([extent(a) or FEW for a in op.axis]), [extent(a) for a in op.reduce_axis]
    return bool(results < FEW and all([d is not None for d in depths]) and prod(depths) >= 32)


def _shared_reduction(s: te.Schedule, tensor: te.Tensor, loops: Loops) -> None:
    """A block for each result, whose threads reduce parts and combine them."""
    op: Any = s[tensor].op
    depth = prod([extent(a) for a in op.reduce_axis])
    whole = s[tensor].fuse(*op.reduce_axis) if len(op.reduce_axis) > 1 else op.reduce_axis[0]
    most = allowed(loops.threads)
    threads = 32
    while threads * 2 <= min(depth, most):
        threads *= 2
    _, part = s[tensor].split(whole, factor=threads)
    parts = s.rfactor(tensor if len(op.body) == 1 else s[tensor].op.output(0), part)
    partial = parts[0] if isinstance(parts, list) else parts
    final: Any = s[tensor].op
    axes = list(final.axis)
    place = s[tensor].fuse(*axes) if len(axes) != 1 else axes[0]
    s[tensor].bind(place, te.thread_axis("blockIdx.x"))
    thread = te.thread_axis("threadIdx.x")
    along = final.reduce_axis[0]
    s[tensor].bind(along, thread)
    s[partial].compute_at(s[tensor], along)
    s[tensor].set_store_predicate(thread.var.equal(0))


def _is_product(op: te.ComputeOp, loops: Loops) -> bool:
    """Whether a reduction is a matrix product, in batches or not: two operands, each of which one of the last two axes does not touch."""
    loads = loads_of(op)
    if len(op.body) > 1 or len(op.axis) < 2 or len(op.reduce_axis) != 1 or len(loads) != 2:
        return False
    *_, row, column = op.axis
    sizes = [extent(a) for a in (row, column, op.reduce_axis[0])]
    if (
        not all([d is not None and d >= SIDE * loops.own // 2 for d in sizes[:2]])
        or sizes[2] is None
        or sizes[2] < loops.deep
    ):
        return False
    touched = [(uses(load, row), uses(load, column)) for load in loads]
    return sorted(touched) == [(False, True), (True, False)] and loads[0].producer is not loads[1].producer


def _tiles(s: te.Schedule, made: te.Tensor, tensor: te.Tensor, loops: Loops) -> None:
    """A block for a tile of SIDE * own results squared, a thread for own results squared in registers. tensor: what takes the product."""
    op: Any = s[made].op
    sources = list(op.input_tensors)
    if made is tensor:
        acc = s.cache_write(made, "local")
    else:
        acc = made
        s[made].set_scope("local")
    copies = [s.cache_read(t, "shared", [acc]) for t in sources]
    registers = [s.cache_read(t, "local", [acc]) for t in copies]
    *lead, row, column = axes_of(s, tensor)
    by, ty = s[tensor].split(row, SIDE * loops.own)
    bx, tx = s[tensor].split(column, SIDE * loops.own)
    ty, yi = s[tensor].split(ty, loops.own)
    tx, xi = s[tensor].split(tx, loops.own)
    s[tensor].reorder(*lead, by, bx, ty, tx, yi, xi)
    if lead:
        batch = s[tensor].fuse(*lead) if len(lead) > 1 else lead[0]
        s[tensor].bind(batch, te.thread_axis("blockIdx.z"))
    s[tensor].bind(by, te.thread_axis("blockIdx.y"))
    s[tensor].bind(bx, te.thread_axis("blockIdx.x"))
    thread_y, thread_x = te.thread_axis((0, SIDE), "threadIdx.y"), te.thread_axis((0, SIDE), "threadIdx.x")
    s[tensor].bind(ty, thread_y)
    s[tensor].bind(tx, thread_x)
    s[acc].compute_at(s[tensor], tx)
    *_, yc, xc = axes_of(s, acc)
    ko, ki = s[acc].split(reduced(s, acc)[0], loops.deep)
    s[acc].reorder(ko, ki, *axes_of(s, acc)[:-2], yc, xc)
    s[acc].unroll(yc)
    s[acc].unroll(xc)
    for copy, register in zip(copies, registers, strict=True):
        s[copy].compute_at(s[acc], ko)
        s[register].compute_at(s[acc], ki)
        axes = axes_of(s, copy)
        whole = s[copy].fuse(*axes) if len(axes) > 1 else axes[0]
        rest, copy_x = s[copy].split(whole, SIDE)
        _, copy_y = s[copy].split(rest, SIDE)
        s[copy].bind(copy_y, te.thread_axis((0, SIDE), "threadIdx.y"))
        s[copy].bind(copy_x, te.thread_axis((0, SIDE), "threadIdx.x"))
