"""Kernels and memory plans: random models run by the interpreter on the planned arena; liveness and sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright import relay
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.relay.backend.memory_plan import ALIGNMENT, Storage, plan
from tilewright.relay.backend.plan import KernelCall, Plan, make_plan
from tilewright.relay.backend.plan_executor import run_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.support.errors import TVMError
from tilewright.tir import Any

sys.path.insert(0, str(Path(__file__).parent))
from random_graphs import Generator, assert_same, evaluate


def planned(mod: IRModule) -> Plan:
    optimized, _ = relay.optimize(mod, "llvm")
    return make_plan(optimized, TECompiler(None))


def run_kernel(call: KernelCall, arrays: list[np.ndarray]) -> None:
    interp.run(call.kernel.func, list(arrays))


@pytest.mark.parametrize("seed", range(200, 206))
def test_random_models(seed: int) -> None:
    g = Generator(seed, 8)
    mod, inputs = g.module(), g.inputs()
    assert_same(run_plan(planned(mod), inputs, run_kernel), evaluate(mod, inputs))


def by_reference(mod: IRModule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run_plan(planned(mod), inputs, run_kernel)


def test_outputs_that_are_inputs_constants_or_given_twice() -> None:
    x = relay.var("x", shape=(2, 4))
    y = relay.tanh(x)
    outputs = relay.Tuple(
        [y, x, y, relay.reshape(y, (8,)), relay.const(np.ones(3, "float32")), relay.reshape(x, (4, 2))]
    )
    mod = IRModule.from_expr(relay.Function([x], outputs))
    data = [np.random.default_rng(0).standard_normal((2, 4)).astype("float32")]
    assert_same(by_reference(mod, data), evaluate(mod, data))


def test_reshape_is_no_kernel() -> None:
    x = relay.var("x", shape=(2, 4))
    y = relay.nn.softmax(relay.reshape(relay.nn.softmax(x), (4, 2)))
    assert [c.kernel.name for c in planned(IRModule.from_expr(y)).calls] == ["fused_nn_softmax", "fused_nn_softmax_1"]


def test_equal_kernels_are_compiled_once() -> None:
    x = relay.var("x", shape=(2, 64))
    w = relay.const(np.ones((64, 64), "float32"))
    y = relay.nn.dense(relay.nn.dense(relay.nn.dense(x, w), w), w)
    p = planned(IRModule.from_expr(y))
    assert len({id(c.kernel) for c in p.calls}) == 1
    assert p.constants.bytes == 64 * 64 * 4


def test_element_wise_kernels_run_in_place() -> None:
    x = relay.var("x", shape=(64,))
    y = relay.sort(relay.tanh(relay.sort(x)))
    p = planned(IRModule.from_expr(y))
    middle = p.calls[1]
    assert middle.args[0].storage is middle.args[1].storage
    assert p.workspace_bytes == 64 * 4


def test_work_of_a_kernel() -> None:
    x = relay.var("x", shape=(3, 20))
    p = planned(IRModule.from_expr(relay.nn.dense(x, relay.const(np.ones((64, 20), "float32")))))
    assert p.calls[0].kernel.flops == 2 * 3 * 20 * 64
    assert p.calls[0].kernel.bytes == 4 * (3 * 20 + 20 * 64 + 3 * 64)


def test_unknown_dimension_is_refused_with_a_remedy() -> None:
    x = relay.var("x", shape=(Any(), 4))
    with pytest.raises(
        TVMError, match=r"Tensor\[\(\?, 4\), float32\] has a dimension that is not known.*--shape input=1,3,224,224"
    ):
        planned(IRModule.from_expr(relay.tanh(x)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [40, 2300])
def test_storages_that_live_together_do_not_overlap(seed: int, count: int) -> None:
    if count > 100 and seed:
        return
    rng = np.random.default_rng(seed)
    storages = []
    for i in range(count):
        begin = int(rng.integers(0, 100)) if count < 100 else i
        storages.append(Storage(int(rng.integers(0, 5000)), begin, begin + int(rng.integers(0, 12))))
    total = plan(storages)
    for i, a in enumerate(storages):
        assert a.offset % ALIGNMENT == 0
        assert a.offset + a.size <= total
        for b in storages[:i]:
            if a.size and b.size and a.begin <= b.end and b.begin <= a.end:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    peak = max(sum(s.size for s in storages if s.begin <= t <= s.end) for t in range(120))
    assert total <= 1.5 * peak or count > 100
