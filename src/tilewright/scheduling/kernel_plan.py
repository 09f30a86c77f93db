"""Plans: each decision about a kernel, taken once, in the order in which the kernel is made.

    plan = KernelPlan(target)                            # the cost model decides
    with plan:                                     # computes ask it for their forms
        func = te.create_prim_func(...)
    scheduled = schedule_kernel(func, target, plan)    # rules ask it for tiles, unrolling, vectors, threads
    plan.values()                                  # {"T_dense.form": "panels", "T_dense.tile": [6, 2], ...}
    plan.space()                                   # {"T_dense.form": ["columns", "panels", "dots"], ...}
    KernelPlan(target, given={"T_dense.tile": [4, 2]})   # a tuner, a user or a database decides what is given

What is decided about the operators of a program before there are kernels (layouts, packing) stands in its GraphPlan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from tilewright.codegen.backend import CPU_RULES, GPU_RULES, NO_RULES
from tilewright.scheduling.cpu.forms import CpuForms
from tilewright.scheduling.decisions import KernelDecisions
from tilewright.scheduling.family import rules_of
from tilewright.scheduling.gpu.forms import GpuForms
from tilewright.target import Target
from tilewright.topi.planner import Planner

FORMS: dict[str, Callable[[KernelDecisions], Planner]] = {
    CPU_RULES: CpuForms,
    GPU_RULES: GpuForms,
    NO_RULES: lambda plan: Planner(),
}
"""Answers to computes, by the family of rules."""


class KernelPlan(KernelDecisions):
    """The decisions of one kernel for a target. given: values by name, as `values` returns them or as JSON holds them.

    forms: the answers to what computes ask, in force inside of `with`.
    """

    def __init__(self, target: Target | str, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(target, given)
        self.forms = FORMS[rules_of(self.target)](self)

    def __enter__(self) -> Self:
        self.forms.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.forms.__exit__(*exc)


__all__ = ["KernelPlan"]
