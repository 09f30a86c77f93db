"""Random spaces of schedules, of all four kinds, each with a kernel and what it must compute."""

from __future__ import annotations

import platform
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.auto_scheduler import workloads
from tests.generators import reference, scripts, tensors
from tests.generators.case import Case, Recipe
from tests.generators.relay_kernels import Network
from tests.generators.templates import space_of
from tests.meta_schedule import kernels
from tests.meta_schedule.kernels import context
from tilewright import auto_scheduler, te
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.sampling import Limits, Sampler
from tilewright.auto_scheduler.sketch_rules import RULES, Problem, generate
from tilewright.auto_scheduler.sketch_space import SketchSpace
from tilewright.ir.transform import PassContext
from tilewright.meta_schedule.plans import KernelPlans
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.relay.backend.tuning_tasks import tuning_tasks
from tilewright.tir import PrimFunc
from tilewright.tuning.inputs import Values, kernel_of, random_input
from tilewright.tuning.measure import Argument
from tilewright.tuning.space import Space

TARGETS = ("llvm", "llvm -num-cores=4")
X86_TARGETS = ("llvm -mcpu=x86-64", "llvm -mcpu=haswell", "llvm -mcpu=haswell -num-cores=16")


class Drawn(NamedTuple):
    """A space. case: its untuned kernel with values for the parameters. exact: whether its results do not depend on the order of sums."""

    kind: str
    target: str
    space: Space[Any]
    case: Case
    exact: bool


def draw(seed: int) -> Drawn:
    """The space of a seed. Raises what makes it raises."""
    rng = random.Random(f"{seed}/space")
    targets = TARGETS + (X86_TARGETS if platform.machine() == "x86_64" else ())
    kind = rng.choice(["plan", "plan", "trace", "trace", "sketch", "sketch", "template"])
    return MAKERS[kind](rng, rng.choice(targets))


def plans(rng: random.Random, target: str) -> Drawn:
    """A kernel of a random network."""
    while True:
        with PassContext(opt_level=3):
            tasks = tuning_tasks(Network(rng).module(), target)
        if tasks:
            break
    space = rng.choice(tasks).space
    return Drawn("plan", target, space, _any_values("plan", kernel_of(space.untuned())), False)


def traces(rng: random.Random, target: str) -> Drawn:
    """Design spaces of a kernel whose products are tiled, or of a random program of blocks, with plans of the compiler's own rules."""
    if rng.random() < 0.5:
        case, exact = _any_values("trace", _kernel(rng)), False
    else:
        case, exact = _static(rng, [tensors.draw, tensors.draw, scripts.draw]), True
    ctx = context(case.func, target, seed=rng.randrange(1, 1000))
    assert ctx.mod is not None and ctx.target is not None
    space = TraceSpace(ctx, plans=KernelPlans.of(ctx.mod, ctx.target))
    return Drawn("trace", target, space, case, exact)


def sketches(rng: random.Random, target: str) -> Drawn:
    """Sketches of a workload, or of random tensor expressions."""
    if rng.random() < 0.5:
        made = _workload(rng)
        case, exact = _any_values("sketch", te.create_prim_func(made)), False
    else:
        recipe = _recipe(rng)
        b, outputs = tensors.build(recipe)
        made, exact = tensors.parameters(b, outputs), True
        case = Case("sketch", te.create_prim_func(made), b.fill, {}, None, b.tolerance)
    dag = auto_scheduler.ComputeDAG(made)
    hardware = HardwareParams(num_cores=rng.choice([1, 2, 4, 16]), vector_unit_bytes=32, cache_line_bytes=64)
    limits = Limits(rng.choice([4, 16, 64]), rng.choice([4, 16]), rng.random() < 0.9)
    structure = rng.choice(["SSRSRS", "SSRSRS", "SRS", "SSRS"])
    space = SketchSpace(Sampler(dag, hardware, limits), generate(Problem(dag, hardware, structure), RULES))
    return Drawn("sketch", target, space, case, exact)


def templates(rng: random.Random, target: str) -> Drawn:
    """Knobs of a random template."""
    recipe = _recipe(rng)
    b, outputs = tensors.build(recipe)
    case = Case("template", te.create_prim_func(tensors.parameters(b, outputs)), b.fill, {}, tolerance=b.tolerance)
    return Drawn("template", target, space_of(recipe.seed, len(recipe.stages), target), case, True)


MAKERS: dict[str, Callable[[random.Random, str], Drawn]] = {
    "plan": plans,
    "trace": traces,
    "sketch": sketches,
    "template": templates,
}


def _recipe(rng: random.Random) -> Recipe:
    """A random program without sizes that are parameters, without computes that Python does, and without recurrences, not all of which
    have a form as blocks."""
    while True:
        recipe = Recipe(rng.randrange(1 << 30), tuple(range(rng.choice([1, 2, 2, 3, 3]))), ())
        b, outputs = tensors.build(recipe)
        ops = reference.post_order([t.op for t in outputs])
        if not b.sizes and not b.externs and not any([isinstance(op, te.ScanOp) for op in ops]):
            return recipe


def _static(rng: random.Random, makers: list[Callable[[Recipe], Case]]) -> Case:
    while True:
        recipe = _recipe(rng)
        case = rng.choice(makers)(recipe)
        if not case.sizes:
            return case


def _kernel(rng: random.Random) -> PrimFunc:
    """A kernel of the tests of design spaces, of a random size."""

    def size(*sizes: int) -> int:
        return rng.choice(sizes)

    makers: list[Callable[[], PrimFunc]] = [
        lambda: kernels.gemm(size(1, 5, 8, 16), size(7, 12, 16, 32), size(6, 8, 17), rng.random() < 0.5),
        lambda: kernels.conv(size(1, 3, 4), size(3, 5, 6), size(2, 4, 8), size(1, 2, 3)),
        lambda: kernels.softmax(size(1, 4, 7), size(5, 12, 16)),
        lambda: kernels.elementwise(size(3, 6, 8), size(5, 10, 16)),
        lambda: kernels.norm(size(1, 2), size(16, 64, 100)),
    ]
    return rng.choice(makers)()


def _workload(rng: random.Random) -> list[te.Tensor]:
    def size(*sizes: int) -> int:
        return rng.choice(sizes)

    makers: list[Callable[[], list[te.Tensor]]] = [
        lambda: workloads.matmul_add(size(1, 4, 8, 15), size(6, 8, 16), size(4, 12, 32)),
        lambda: workloads.matmul(size(1, 4, 8, 15), size(6, 8, 16), size(4, 12, 32)),
        lambda: workloads.conv_relu(size(3, 4, 6), size(1, 2, 4)),
        lambda: workloads.row_sum(size(1, 4, 6), size(8, 64, 100)),
        lambda: workloads.softmax(size(1, 4, 7), size(5, 12, 16)),
    ]
    return rng.choice(makers)()


def _any_values(kind: str, func: PrimFunc) -> Case:
    """A kernel with values for all of its buffers, as tuning fills them."""

    def filled(dtype: str) -> Callable[[np.random.Generator, tuple[int, ...]], Values]:
        return lambda random, shape: random_input(Argument(shape, dtype), random)

    buffers = [func.buffer_map[p] for p in func.params]
    return Case(kind, func, {b.name: filled(str(b.dtype)) for b in buffers}, {})
