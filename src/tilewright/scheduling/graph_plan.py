"""Plans of programs: each decision about an operator that is taken before there are kernels, by the problem that it solves.

    with GraphPlan(target) as plan:                 # the cost model decides
        relay.build(mod, target)
    plan.values()       # {"winograd(64 to 64, 1x56x56).tile": 4, "dense(1x512x1000, 32 bits).panel": 64, ...}
    plan.space()        # {"winograd(64 to 64, 1x56x56).tile": [0, 4, 2], ...}
    with GraphPlan(target, given={"winograd(64 to 64, 1x56x56).tile": 0}):
        ...             # a tuner, a user or a database decides what is given

    nn.conv2d(...).block    the channels in a block of the result
    nn.conv2d(...).layout   blocks, or plain
    nn.conv2d(...).filters  filters of each group of bytes, with padded ones; 0: the plain form
    nn.conv2d_transpose(...).form   a convolution by phases, or a product whose windows are added, in planes or rows
    images(...).layout      whether images of a type have their channels last, or stay as the model has them (plain)
    winograd(...).tile      the side of the tiles of results; 0: the direct form
    dense(...).panel        the columns in a panel of packed weights; 0: weights along the reduction, in no panels
    dense(...).algorithm    plain, or strassen: seven products of half the size instead of eight (only where it is given)
    windows(...).form       whether a convolution along a dynamic line is a product of copied windows (product), or a convolution
    product(...).rows       whether rows are counted along all leading axes (together) or along the last two (apart)
    attention(...).form     in blocks of queries, or as products and a softmax (whole)
    dense(...).branch       whether a product joins others of the same data (joined), or runs by itself (apart)
    branches(...).form      the same of convolutions
    product(..., resize ..).place  (operators above a product, operators above its data), among those before it; (0, 0): where it is
    batch(...).split        (images at a time, first layers that run so); (images, 0): all images at once
    nn.contrib_conv2d_NCHWc(...).halo  whether the producer of the data writes it, or the convolution copies the data

Operators that solve the same problem share a decision. What is decided about kernels stands in their KernelPlans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, Self

from tilewright.codegen.backend import CPU_RULES, GPU_RULES, NO_RULES
from tilewright.scheduling.cpu.graph_forms import CpuGraphForms
from tilewright.scheduling.decisions import Decisions, Value
from tilewright.scheduling.family import rules_of
from tilewright.scheduling.gpu.graph_forms import GpuGraphForms
from tilewright.scheduling.graph_forms import GraphForms, times
from tilewright.target import Target

FORMS: dict[str, type[GraphForms]] = {CPU_RULES: CpuGraphForms, GPU_RULES: GpuGraphForms, NO_RULES: GraphForms}
"""Answers to passes, by the family of rules."""


class GraphPlan(Decisions):
    """The decisions about the operators of programs for a target, in force inside of `with`. forms: the answers to what passes ask."""

    def __init__(self, target: Target | str, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(target, given)
        self.forms = FORMS[rules_of(self.target)](self)
        self._tokens: list[Token[GraphPlan | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    def choose(self, name: str, model: Value, choices: Callable[[], Iterable[Value]]) -> Value:
        """The value of a decision. The same problem always gets the same value."""
        known = self.decisions.get(name)
        if known is not None and known.by == "given":
            value: Value = known.value
            return value
        return super().choose(name, model, choices)


_current: ContextVar[GraphPlan | None] = ContextVar("graph plan", default=None)


def given_plan() -> GraphPlan | None:
    """The plan that a program or a tuner has put in force."""
    return _current.get()


def graph_plan() -> GraphPlan | None:
    """The plan in force; else one in which the model decides for the current target; None where there is none."""
    found, target = _current.get(), Target.current(True)
    return found or (GraphPlan(target) if target is not None else None)


def portable_plan() -> GraphPlan:
    """The same; where there is no target either, a plan for any x86-64 with AVX-512."""
    return graph_plan() or GraphPlan("llvm -mcpu=x86-64-v4")


def problem_name(
    kind: str, shapes: Sequence[Sequence[Any]], attributes: Mapping[str, Any], dtypes: Sequence[str]
) -> str:
    """The name of a problem: the operator, its shapes ("?" for dynamic dimensions), attributes, types."""
    told = "".join([f", {k} {times(v) if isinstance(v, (tuple, list)) else v}" for k, v in attributes.items()])
    types = dtypes[0] if len(set(dtypes)) == 1 else " by ".join(dtypes)
    return f"{kind}({', '.join(map(times, shapes))}{told}, {types})"


__all__ = ["GraphPlan", "given_plan", "graph_plan", "portable_plan", "problem_name"]
