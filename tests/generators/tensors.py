"""Random tensor expressions: graphs of computes of every type and shape, whose results are exact in any order of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.generators import reference
from tests.generators.case import Case, Recipe
from tests.generators.tensor_builder import Builder
from tests.generators.tensor_stages import NAMES, STAGES
from tilewright import te


def build(recipe: Recipe) -> tuple[Builder, list[te.Tensor]]:
    """The program's tensors: what it takes and its outputs."""
    b = Builder(recipe)
    b.start()
    for number in recipe.stages:
        b.add_stage(number, NAMES, STAGES)
    return b, b.outputs()


def parameters(b: Builder, outputs: list[te.Tensor]) -> list[Any]:
    """What `create_prim_func` is given: sizes that are parameters, the inputs that are used, the outputs."""
    needed = {t for op in reference.post_order([t.op for t in outputs]) for t in op.outputs}
    inputs = [t for t in b.inputs if t in needed or t is b.inputs[0]]
    return [*(b.sizes if b.sizes_given else ()), *inputs, *outputs]


def reference_of(b: Builder, args: list[Any], outputs: list[te.Tensor]) -> Callable[[list[Any]], None]:
    """A function that fills the outputs among arguments."""

    def run(values: list[Any]) -> None:
        feeds = {t: v for t, v in zip(args, values, strict=True) if isinstance(t, te.Tensor) and t in b.inputs}
        results = reference.evaluate(outputs, feeds, b.sizes, b.externs)
        for array, result in zip(values[len(values) - len(outputs) :], results, strict=True):
            array[...] = result

    return run


def draw(recipe: Recipe) -> Case:
    """The program of a recipe."""
    b, outputs = build(recipe)
    args = parameters(b, outputs)
    return Case("te", te.create_prim_func(args), b.fill, b.sizes, reference_of(b, args, outputs), b.tolerance)
