"""Plans of the compiler's own rules as candidates of a search."""

from __future__ import annotations

from random import Random

import pytest

from tests.meta_schedule.kernels import KERNELS, check_draws, context, gemm
from tilewright import meta_schedule as ms
from tilewright.ir import GlobalVar, IRModule
from tilewright.meta_schedule.plans import KernelPlans, decisions_of
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.node import structural_equal
from tilewright.scheduling.whole_kernel import schedule_kernel
from tilewright.target import Target
from tilewright.tir import PrimFunc

LLVM = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})


def planned(func: PrimFunc) -> tuple[TraceSpace, KernelPlans]:
    mod = IRModule.from_expr(func)
    plans = KernelPlans.of(mod, LLVM)
    assert plans is not None
    return TraceSpace(context(func, str(LLVM)), plans=plans), plans


def test_the_first_is_the_schedule_of_an_untuned_build() -> None:
    func = gemm(64, 64, 64)
    space, plans = planned(func)
    (made,) = space.program(plans.start()).functions.values()
    # RewriteReductionBlock has nothing left to do: the rules set initial values apart.
    root = made.body.block.annotations
    assert list(root) == ["meta_schedule.kernel_plan"]
    bare = made.replace(body=made.body.replace(block=made.body.block.replace(annotations={})))
    structural_equal(bare.without_attr("global_symbol"), schedule_kernel(func, LLVM).without_attr("global_symbol"))


def test_neighbours_differ_in_a_decision_and_what_depends_on_it() -> None:
    space, plans = planned(gemm(64, 64, 64))
    random, start = Random(0), plans.start()
    before = decisions_of(start)
    assert before is not None and "C.tile" in before
    for _ in range(10):
        changed = decisions_of(space.neighbour(start, random))
        assert changed is not None and changed != before
    crossed = decisions_of(space.crossed(start, space.neighbour(start, random), random))
    assert crossed is not None and crossed.keys() == before.keys()


def test_records_of_plans_can_be_changed_again() -> None:
    space, plans = planned(gemm(64, 64, 64))
    again = space.read(space.write(plans.start()))
    assert space.key(again) == space.key(plans.start()) and decisions_of(again) == decisions_of(plans.start())


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_plans_compute_what_the_kernel_computes(name: str) -> None:
    func = KERNELS[name]()
    space, _ = planned(func)
    assert check_draws(func, space, 12) > 0


def test_what_the_rules_do_not_schedule_has_none() -> None:
    func = gemm()
    assert KernelPlans.of(IRModule.from_expr(func), Target("cuda -arch=sm_80")) is None
    two = IRModule({GlobalVar(n): func.with_attr("global_symbol", n) for n in ("a", "b")})
    assert KernelPlans.of(two, LLVM) is None


def first_of(space: object) -> ms.MeasureCandidate:
    ctx = ms.TuneContext(gemm(), target=LLVM, space_generator=space, search_strategy="evolutionary", rand_state=1)
    ctx.pre_tuning(2, 2)
    found = ctx.generate_measure_candidates()
    assert found
    return found[0]


def test_rules_of_users_are_the_whole_space() -> None:
    trace = first_of("post-order-apply").sch.trace
    assert trace is not None and decisions_of(trace) is not None
    rules = ms.ScheduleRule.create("llvm")
    generator = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs="llvm", mutator_probs="llvm")
    for space in (generator, lambda sch: None):
        trace = first_of(space).sch.trace
        assert trace is not None and decisions_of(trace) is None
