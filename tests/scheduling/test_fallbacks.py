"""What schedules do without: the steps that rules tried without success, by kernel. A new one fails here, and is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.scheduling.test_rules import CASES, TARGETS
from tests.scheduling.test_traces import dynamic, made
from tests.tir_schedule.examples import chain
from tilewright import te, topi
from tilewright.ir.transform import PassContext
from tilewright.node import deep_recursion
from tilewright.relay import testing
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.scheduling import scheduled
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

NETWORKS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: testing.mlp.get_workload(1),
    "resnet18": lambda: testing.resnet.get_workload(1, 10, 18, (3, 32, 32)),
    "mobilenet": lambda: testing.mobilenet.get_workload(1, 10, (3, 32, 32)),
}


def lines(name: str, sch: Schedule) -> list[str]:
    return [f"{name}: {f}" for f in sch.fallbacks]


@pytest.mark.parametrize("target", TARGETS)
def test_rules(target: str, golden: Callable[[str, str], None]) -> None:
    found: list[str] = []
    for case, make in {**CASES, **{f"{k} of dynamic rows": dynamic(k) for k in ("softmax", "dense")}}.items():
        found += lines(case, made(make, Target(TARGETS[target]))[1])
    golden(f"fallbacks_{target}", "\n".join(found))


@pytest.mark.parametrize("network", NETWORKS)
def test_kernels_of_networks(network: str, golden: Callable[[str, str], None]) -> None:
    target = Target(TARGETS["avx512"])
    mod, params = NETWORKS[network]()
    with PassContext(opt_level=3), target:
        optimized, _ = optimize(mod, target, params)
        compiler = TECompiler(target)
        with deep_recursion():
            make_plan(optimized, compiler)
    found: list[str] = []
    for kernel in compiler.kernels.values():
        with deep_recursion():
            found += lines(kernel.name, scheduled(kernel.func, target, kernel.plan))
        assert kernel.plan is None or len(kernel.plan.fallbacks) == len(
            [x for x in found if x.startswith(f"{kernel.name}: ")]
        )
    golden(f"fallbacks_of_{network}", "\n".join(found))


def test_a_step_that_is_refused_leaves_no_trace() -> None:
    sch = Schedule(chain(), error_render_level="fast")
    b, c = sch.get_block("B"), sch.get_block("C")
    before, steps = sch.mod["main"], len(sch.trace.insts) if sch.trace else 0
    with sch.tried("B inlined into what it reads") as step:
        sch.reverse_compute_inline(b)
    assert step.refused and sch.mod["main"] is before and sch.trace is not None and len(sch.trace.insts) == steps
    with sch.tried("C inlined into what it reads") as step:
        sch.reverse_compute_inline(c)
    assert not step.refused and len(sch.trace.insts) == steps + 1
    assert [str(f) for f in sch.fallbacks] == [f"B inlined into what it reads: {sch.fallbacks[0].reason}"]
    assert sch.fallbacks[0].reason.startswith("reverse_compute_inline: block B must read exactly one block's output")
    assert sch.copy().fallbacks == sch.fallbacks and sch.copy().fallbacks is not sch.fallbacks
    with pytest.raises(ZeroDivisionError), sch.tried("what is no refusal"):
        _ = 1 // 0
    with pytest.raises(ScheduleError):
        sch.reverse_compute_inline(b)


def test_steps_can_be_asked_for_beforehand() -> None:
    sch = Schedule(chain())
    before = sch.mod["main"]
    assert sch.accepts(lambda s: s.compute_inline("B")) and not sch.accepts(lambda s: s.compute_inline("C"))
    assert sch.mod["main"] is before and not sch.fallbacks


def test_a_reader_of_other_tiles_is_named() -> None:
    """What is turned around after sums of windows cannot be read tile by tile."""

    def turned() -> list[te.Tensor]:
        x, w = te.placeholder((24, 64), name="x"), te.placeholder((2, 64, 32), name="w")
        product = topi.nn.dense_pack(x, w)
        return [x, w, te.compute((64, 24), lambda i, j: product[23 - j, 63 - i] + product[j, i], name="turned")]

    _, sch = made(turned, Target(TARGETS["avx512"]))
    (found,) = lines("turned", sch)
    assert found.startswith("turned: turned tile by tile, on sums in registers: reverse_compute_at: block turned ")
