"""The tasks of AutoTVM in networks of bytes for boards, and builds with their records, without boards."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tilewright as tvm
from tests.micro.boards import network, quantised_network
from tilewright import autotvm
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.micro.board import board
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.targets import config_of


def recorded(task: Any, index: int, cost: float = 1.0) -> tuple[MeasureInput, MeasureResult]:
    config = task.config_space.get(index)
    config.cost = cost
    return MeasureInput(task.target, task, config), MeasureResult((cost,), 0, 0, 0)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


PACKED = ["depthwise_conv2d_nhwc.generic", "conv2d_nhwc_dsp.arm_cpu", "dense_dsp.arm_cpu"]
PLAIN = ["depthwise_conv2d_nhwc.generic", "conv2d_nhwc.generic", "dense.generic"]


@pytest.mark.parametrize(
    "name, found",
    [
        ("mps2_an500", PACKED),
        ("mps3_an547", PACKED),
        ("microbit", PLAIN),
        ("hifive1", PLAIN),
        ("riscv32_virt_v", PLAIN),
    ],
)
def test_records_decide_about_kernels(name: str, found: list[str]) -> None:
    mod, weights = quantised_network()
    target = board(name).target("llvm")
    tasks = autotvm.task.extract_from_program(mod["main"], params=weights, target=target)
    assert [t.name for t in tasks] == found
    assert all([len(t.config_space) > 1 for t in tasks])
    records = [recorded(t, len(t.config_space) - 1) for t in tasks]
    with autotvm.apply_history_best(records):
        optimized, _ = optimize(mod, target, weights)
    plan = make_plan(optimized, DeviceCompilers(optimized, config_of(target)))
    given = [call.kernel.plan.given for call in plan.calls]
    assert as_json([g for g in given if g]) == as_json([made.config.get_other_option() for made, _ in records])


def test_a_configuration_is_another_program() -> None:
    mod, weights = quantised_network()
    tasks = autotvm.task.extract_from_program(
        mod["main"], params=weights, target=board("mps2_an386").target("llvm"), ops=["nn.dense"]
    )
    (task,) = tasks
    texts = set()
    for index in range(len(task.config_space)):
        with task.target:
            schedule, args = task.instantiate(task.config_space.get(index))
            texts.add(str(tvm.lower(schedule, args)))
    assert len(texts) == len(task.config_space) == 4


def test_networks_of_floats_have_tasks_on_boards() -> None:
    mod, weights = network()
    tasks = autotvm.task.extract_from_program(mod["main"], params=weights, target=board("riscv32_virt").target("c"))
    assert [t.name for t in tasks] == ["conv2d_nhwc.generic", "dense_nopack.x86", "dense_pack.x86"]
