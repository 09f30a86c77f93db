"""The tasks of a model, whose operators have strategies with templates of the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import autotvm, relay, te
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.relay.op import strategy
from tilewright.support.errors import TVMError

SEEN: list[list[int]] = []
"""The tiles that schedules were made with."""


@autotvm.register_topi_compute("test/dense.x86")
def dense(cfg: Any, data: te.Tensor, weight: te.Tensor, bias: Any = None, out_dtype: Any = None) -> te.Tensor:
    m, n, k = int(data.shape[0]), int(weight.shape[0]), te.reduce_axis((0, data.shape[1]), "k")
    cfg.define_split("tile_n", n, num_outputs=2)
    return te.compute((m, n), lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k), name="T_mine", tag="mine")


@autotvm.register_topi_schedule("test/dense.x86")
def schedule_dense(cfg: Any, outs: Any) -> te.Schedule:
    outs = outs if isinstance(outs, (list, tuple)) else [outs]
    s = te.create_schedule([t.op for t in outs])
    last = outs[0]
    SEEN.append(cfg["tile_n"].size)
    outer, _ = cfg["tile_n"].apply(s, last, s[last].op.axis[1])
    s[last].parallel(outer)
    return s


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    fstrategy = strategy.dense_strategy

    @fstrategy.register("cpu")
    def mine(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
        made = relay.op.OpStrategy()
        made.add_implementation(
            strategy.wrap_compute_dense(dense), strategy.wrap_topi_schedule(schedule_dense), name="test/dense.x86"
        )
        return made

    yield
    fstrategy.op.set_attr("FTVMStrategy", None)


def model(units: tuple[int, ...] = (8, 16, 16)) -> tvm.IRModule:
    x = relay.var("x", shape=(4, 8))
    y: Any = x
    for i, (n, k) in enumerate(zip(units[1:], units[:-1], strict=True)):
        y = relay.nn.relu(relay.nn.dense(y, relay.var(f"w{i}", shape=(n, k))))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))


def test_tasks_of_a_model_are_tuned_and_built(tmp_path: Path) -> None:
    mod, log = model(), tmp_path / "log"
    with tvm.transform.PassContext(opt_level=0):
        tasks = autotvm.task.extract_from_program(
            mod["main"], target="llvm", params={}, ops=(relay.op.get("nn.dense"),)
        )
    assert [t.workload[1:3] for t in tasks] == [
        (("TENSOR", (4, 8), "float32"), ("TENSOR", (16, 8), "float32")),
        (("TENSOR", (4, 16), "float32"), ("TENSOR", (16, 16), "float32")),
    ]
    assert all([t.name == "test/dense.x86" and len(t.config_space) == 5 for t in tasks])
    best = {0: 2, 1: 3}
    for i, task in enumerate(tasks):
        for index in range(5):
            pair = (
                MeasureInput(task.target, task, task.config_space.get(index)),
                MeasureResult((1.0 + abs(index - best[i]),), 0, 0, 0),
            )
            autotvm.record.write(log, [pair])
    rng = np.random.default_rng(0)
    x, w0, w1 = (rng.standard_normal(s).astype("float32") for s in ((4, 8), (16, 8), (16, 16)))
    SEEN.clear()
    with autotvm.apply_history_best(log), tvm.transform.PassContext(opt_level=0):
        built = relay.create_executor("graph", mod, target="llvm").evaluate()
        found = built(x=x, w0=w0, w1=w1).numpy()
    assert SEEN == [[-1, 4], [-1, 8]]
    # No cache gives what was built with other records.
    other = [
        (MeasureInput(task.target, task, task.config_space.get(1)), MeasureResult((1.0,), 0, 0, 0)) for task in tasks
    ]
    SEEN.clear()
    with autotvm.apply_history_best(other), tvm.transform.PassContext(opt_level=0):
        relay.build(mod, "llvm")
    assert SEEN == [[-1, 2], [-1, 2]]
    np.testing.assert_allclose(found, np.maximum(np.maximum(x @ w0.T, 0) @ w1.T, 0), rtol=1e-4, atol=1e-5)


def test_which_operators() -> None:
    with tvm.transform.PassContext(opt_level=0):
        assert autotvm.task.extract_from_program(model(), {}, "llvm", ops=["nn.conv2d"]) == []
        both = autotvm.task.extract_from_multiple_program([model(), model((8, 16, 32))], [{}, {}], "llvm")
        assert len(both) == 3
        with pytest.raises(TVMError, match="each model has its params"):
            autotvm.task.extract_from_multiple_program([model()], [], "llvm")
    assert not autotvm.GLOBAL_SCOPE.silent


def test_without_strategies_the_tasks_are_those_of_the_templates_of_topi() -> None:
    from tilewright.autotvm.task.relay_integration import extract_from_program

    strategy.dense_strategy.op.set_attr("FTVMStrategy", None)
    assert [t.name for t in extract_from_program(model(), {}, "llvm")] == ["dense_nopack.x86", "dense_pack.x86"] * 2
