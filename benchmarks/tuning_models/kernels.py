"""Kernels and random schedules of them: by tiles that are drawn, and by plans whose decisions are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tilewright import te, topi
from tilewright.ir import IRModule
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import IterVar, PrimFunc
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.topi import nn

Compute = Callable[..., Any]
Kernel = tuple[Compute, list[tuple[int, ...]]]
"""What computes it, and the shapes of its float32 operands."""


def _matmul(a: Any, b: Any) -> Any:
    return nn.matmul(a, b)


def _dense(x: Any, w: Any, bias: Any) -> Any:
    return nn.relu(nn.dense(x, w, bias))


def _batched(a: Any, b: Any) -> Any:
    return nn.batch_matmul(a, b, transpose_b=False)


def _conv2d(stride: int, pad: int) -> Compute:
    return lambda x, w, bias: nn.relu(topi.add(nn.conv2d_nchw(x, w, stride, pad, 1), bias))


def _conv2d_last(stride: int, pad: int) -> Compute:
    return lambda x, w: nn.relu(nn.conv2d_nhwc(x, w, stride, pad, 1))


def _depthwise(stride: int) -> Compute:
    return lambda x, w: nn.relu(nn.depthwise_conv2d_nchw(x, w, stride, 1, 1))


def _pool(kind: str, size: int, stride: int) -> Compute:
    return lambda x: nn.pool2d(x, [size, size], [stride, stride], [1, 1], [0, 0, 0, 0], kind)


TRAINED: dict[str, Kernel] = {
    "matmul 256": (_matmul, [(256, 256), (256, 256)]),
    "matmul 96x384x128": (_matmul, [(96, 384), (384, 128)]),
    "dense 64x512 to 128": (_dense, [(64, 512), (128, 512), (128,)]),
    "batch_matmul 4x64x64x96": (_batched, [(4, 64, 64), (4, 64, 96)]),
    "conv2d 3x3, 32 to 32, 28x28": (_conv2d(1, 1), [(1, 32, 28, 28), (32, 32, 3, 3), (1, 32, 1, 1)]),
    "conv2d 1x1, 64 to 128, 14x14": (_conv2d(1, 0), [(1, 64, 14, 14), (128, 64, 1, 1), (1, 128, 1, 1)]),
    "conv2d NHWC 3x3, 16 to 32, 28x28": (_conv2d_last(1, 1), [(1, 28, 28, 16), (3, 3, 16, 32)]),
    "depthwise 3x3, 64, 28x28": (_depthwise(1), [(1, 64, 28, 28), (64, 1, 3, 3)]),
    "softmax 128x256": (lambda x: nn.softmax(x), [(128, 256)]),
    "max_pool 3x3, 32, 56x56": (_pool("max", 3, 2), [(1, 32, 56, 56)]),
    "sum of rows 512x512": (lambda x: topi.sum(x, axis=1), [(512, 512)]),
    "matmul 32x1024x64": (_matmul, [(32, 1024), (1024, 64)]),
    "conv2d 5x5, 16 to 16, 28x28": (_conv2d(1, 2), [(1, 16, 28, 28), (16, 16, 5, 5), (1, 16, 1, 1)]),
    "conv2d NHWC 3x3 / 2, 32 to 64, 28x28": (_conv2d_last(2, 1), [(1, 28, 28, 32), (3, 3, 32, 64)]),
    "depthwise 3x3, 32, 56x56": (_depthwise(1), [(1, 32, 56, 56), (32, 1, 3, 3)]),
    "sum of blocks 64x32x128": (lambda x: topi.sum(x, axis=[1, 2]), [(64, 32, 128)]),
    "sum of columns 1024x64": (lambda x: topi.sum(x, axis=0), [(1024, 64)]),
    "swish 256x1024": (lambda x: topi.multiply(x, topi.sigmoid(x)), [(256, 1024)]),
    "transpose 512x384": (lambda x: topi.transpose(x), [(512, 384)]),
}
"""What the prior is learned from."""

HELD_OUT: dict[str, Kernel] = {
    "matmul 128x512x192": (_matmul, [(128, 512), (512, 192)]),
    "dense 32x768 to 256": (_dense, [(32, 768), (256, 768), (256,)]),
    "conv2d 3x3 / 2, 24 to 48, 32x32": (_conv2d(2, 1), [(1, 24, 32, 32), (48, 24, 3, 3), (1, 48, 1, 1)]),
    "conv2d NHWC 1x1, 48 to 64, 28x28": (_conv2d_last(1, 0), [(1, 28, 28, 48), (1, 1, 48, 64)]),
    "depthwise 3x3 / 2, 96, 28x28": (_depthwise(2), [(1, 96, 28, 28), (96, 1, 3, 3)]),
    "avg_pool 2x2, 48, 56x56": (_pool("avg", 2, 2), [(1, 48, 56, 56)]),
    "softmax 64x1000": (lambda x: nn.softmax(x), [(64, 1000)]),
    "sum of columns 256x768": (lambda x: topi.sum(x, axis=0), [(256, 768)]),
}
"""What models are judged by: kernels of other shapes, whose measurements the prior never sees."""

UNROLL_STEPS = (0, 16, 64, 512)
MOST_LANES = 64


def kernel(k: Kernel, plan: KernelPlan | None = None) -> PrimFunc:
    """The unscheduled kernel, in the form that the plan decides (the plain form, where there is none)."""
    compute, shapes = k
    operands = [te.placeholder(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)]
    if plan is None:
        return te.create_prim_func([*operands, compute(*operands)])
    with plan:
        return te.create_prim_func([*operands, compute(*operands)])


def reference(k: Kernel, target: Target) -> IRModule:
    """The kernel as the rules schedule it, untuned."""
    plan = KernelPlan(target)
    return IRModule.from_expr(schedule_kernel(kernel(k, plan), target, plan))


def schedules(k: Kernel, target: Target, seed: int) -> Iterator[IRModule]:
    """Random schedules of a kernel, without end: three of four by tiles, one by a plan."""
    random = Random(seed)
    plain = kernel(k)
    while True:
        try:
            if random.random() < 0.75:
                yield by_tiles(plain, random)
            else:
                yield _by_plan(k, target, random)
        except TVMError:
            continue


def _by_plan(k: Kernel, target: Target, random: Random) -> IRModule:
    plan = KernelPlan(target)
    schedule_kernel(kernel(k, plan), target, plan)
    given = {name: random.choice(choices) for name, choices in plan.space().items() if random.random() < 0.6}
    plan = KernelPlan(target, given)
    return IRModule.from_expr(schedule_kernel(kernel(k, plan), target, plan))


def by_tiles(func: PrimFunc, random: Random) -> IRModule:
    """A schedule by tiles: what only moves elements is inlined, sums are tiled in four spatial and two reduction levels, what follows a sum
    may be computed with its tiles; outer loops run in parallel, inner ones are vectors or unrolled."""
    s = Schedule(func, seed=random.randrange(1, 1 << 30), error_render_level="fast")
    blocks = s.get_child_blocks(s.get_block("root"))
    for block in list(blocks):
        if (
            not _reductions(s, block)
            and s.get_consumers(block)
            and random.random() < 0.85
            and _tried(
                lambda b=block: s.compute_inline(b)  # type: ignore[misc]
            )
        ):
            blocks.remove(block)
    for block in [b for b in blocks if _reductions(s, b)]:
        _tile(s, block, random)
    for block in [b for b in blocks if not _reductions(s, b)]:
        if len(s.get_loops(block)) == _axes(s, block):
            _spread(s, block, random)
    return s.mod


def _tried(step: Callable[[], Any]) -> bool:
    try:
        step()
    except TVMError:
        return False
    return True


def _axes(s: Schedule, block: BlockRV) -> int:
    return len(s.get(block).iter_vars)


def _reductions(s: Schedule, block: BlockRV) -> bool:
    return any([axis.iter_type == IterVar.CommReduce for axis in s.get(block).iter_vars])


def _tile(s: Schedule, block: BlockRV, random: Random) -> None:
    axes = s.get(block).iter_vars
    loops = s.get_loops(block)
    if len(loops) != len(axes):
        return
    levels: list[list[LoopRV]] = [[] for _ in range(4)]
    sums: list[list[LoopRV]] = [[], []]
    for axis, loop in zip(axes, loops, strict=True):
        if axis.iter_type == IterVar.CommReduce:
            for level, part in zip(sums, s.split(loop, s.sample_perfect_tile(loop, 2, 16)), strict=True):
                level.append(part)
        else:
            for level, part in zip(levels, s.split(loop, s.sample_perfect_tile(loop, 4, MOST_LANES)), strict=True):
                level.append(part)
    s.reorder(*levels[0], *levels[1], *sums[0], *levels[2], *sums[1], *levels[3])
    inner = levels[3]
    if inner and random.random() < 0.85 and s.get(inner[-1]).extent.value <= MOST_LANES:
        _tried(lambda: s.vectorize(inner[-1]))
        inner = inner[:-1]
    if random.random() < 0.4:
        size = 1
        for loop in reversed(inner):
            size *= s.get(loop).extent.value
            if size <= 32:
                _tried(lambda loop=loop: s.unroll(loop))  # type: ignore[misc]
    fused = s.fuse(*levels[0], *levels[1]) if levels[0] and random.random() < 0.5 else None
    outer = fused if fused is not None else s.fuse(*levels[0]) if levels[0] else None
    at = fused if fused is not None else levels[1][-1] if levels[1] else None
    if at is not None:
        for consumer in s.get_consumers(block):
            if random.random() < 0.7 and _tried(lambda c=consumer: s.reverse_compute_at(c, at)):  # type: ignore[misc]
                last = s.get_loops(consumer)[-1]
                if s.get(last).extent.value <= MOST_LANES:
                    _tried(lambda last=last: s.vectorize(last))  # type: ignore[misc]
        for producer in s.get_producers(block):
            if random.random() < 0.5:
                _tried(lambda p=producer: s.compute_at(p, at))  # type: ignore[misc]
    if outer is not None:
        if random.random() < 0.85:
            _tried(lambda: s.parallel(outer))
        s.annotate(outer, "pragma_auto_unroll_max_step", random.choice(UNROLL_STEPS))
    if sums[0] and random.random() < 0.7:
        _tried(lambda: s.decompose_reduction(block, sums[0][0]))


def _spread(s: Schedule, block: BlockRV, random: Random) -> None:
    loops = s.get_loops(block)
    if random.random() < 0.85:
        _, last = s.split(loops[-1], s.sample_perfect_tile(loops[-1], 2, MOST_LANES))
        _tried(lambda: s.vectorize(last))
    loops = s.get_loops(block)
    if random.random() < 0.7 and len(loops) > 1:
        outer = s.fuse(*loops[: random.randrange(1, len(loops))])
        _tried(lambda: s.parallel(outer))
