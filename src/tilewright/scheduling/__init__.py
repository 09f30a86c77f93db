"""Schedules of kernels: a plan decides, rules apply it as programs of public tir.Schedule primitives.

    cost            cycles of register tiles, by the description of a core (target/cores)
    products,       what each form of a product or a convolution costs
    convolutions,
    winograd, orderings
    instructions    dot products and tiles by types and processors
    decisions       what is given, or the cost model's; the other choices
    kernel_plan     the decisions about a kernel
    graph_plan      those about a program that are taken before there are kernels: layouts, packing
    family          which rules a target gets
    cpu/, gpu/      the rules, and the answers to computes and passes, for CPUs and GPUs

The graph compiler calls `schedule_kernel(func, target, plan)`. `scheduled` gives the schedule itself, with its trace.
"""

from __future__ import annotations

from tilewright.scheduling.graph_plan import GraphPlan
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import schedule_kernel, scheduled
from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["GraphPlan", "KernelPlan", "schedule_kernel", "scheduled"]
