"""Random programs with thread axes: as the fuzzer draws them, or bound block by block."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.check import draw, scheduled
from tests.generators.case import Case, Recipe
from tilewright.codegen.device import split
from tilewright.driver.pipeline import lower_for
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.default_gpu import schedule_block


def bind_the_rest(s: Schedule) -> None:
    """Blocks that are not bound to threads, to threads."""
    for block in s.get_child_blocks(s.get_block("root")):
        if not any([s.get(loop).thread_binding is not None for loop in s.get_loops(block)]):
            schedule_block(s, block, 64)


def cases(first: int, count: int) -> Iterator[tuple[int, Case, IRModule]]:
    """(seed, program, the same bound to threads) of the programs among `count` seeds that can be bound."""
    for seed in range(first, first + count):
        recipe = Recipe.of(seed)
        if recipe.kind not in ("gpu", "te", "script"):
            continue
        try:
            case = draw(recipe)
            s = scheduled(case, recipe) if recipe.kind == "gpu" else Schedule(case.func)
            bind_the_rest(s)
        except TVMError:
            # Some loops cannot be bound; the schedule says so.
            continue
        yield seed, case, s.mod


def programs(first: int, count: int, target: Target) -> Iterator[tuple[int, IRModule]]:
    """(seed, kernels) of the programs among `count` seeds that can be lowered for a target."""
    for seed, _, mod in cases(first, count):
        try:
            _, kernels = split(lower_for(mod, target))
        except TVMError:
            # Some threads cannot run what the steps made; passes say so.
            continue
        if kernels.functions:
            yield seed, kernels
