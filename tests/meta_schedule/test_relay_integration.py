"""Kernels of models as tasks, and builds with their records."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.meta_schedule.test_tuning import Formula, Knowing, Written, small_search
from tilewright import meta_schedule as ms
from tilewright import relay
from tilewright.contrib.graph_executor import GraphModule
from tilewright.ir import IRModule
from tilewright.meta_schedule import database as D
from tilewright.meta_schedule.relay_integration import (
    compile_relay,
    extract_tasks,
    extracted_tasks_to_tune_contexts,
    is_meta_schedule_enabled,
    tune_relay,
)
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule

X = np.random.default_rng(0).uniform(-1, 1, (6, 16)).astype("float32")
W = np.random.default_rng(1).uniform(-1, 1, (16, 16)).astype("float32")
USES = {"relay.backend.use_meta_schedule": True}


def model() -> tuple[IRModule, dict[str, Any]]:
    """Two equal products, and a softmax."""
    x, w = relay.var("x", shape=(6, 16)), relay.var("w", shape=(16, 16))
    y = relay.nn.relu(relay.nn.dense(x, w))
    y = relay.nn.relu(relay.nn.dense(y, w))
    return IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(y))), {"w": tvm.nd.array(W)}


def expected() -> np.ndarray[Any, Any]:
    y = np.maximum(np.maximum(X @ W.T, 0) @ W.T, 0)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def result(factory: Any) -> np.ndarray[Any, Any]:
    executor = GraphModule(factory["default"](tvm.cpu()))
    executor.run(x=X)
    return executor.get_output(0).numpy()  # type: ignore[no-any-return]


def test_tasks(tmp_path: Path) -> None:
    mod, params = model()
    tasks = extract_tasks(mod, "llvm", params)
    weights = {task.task_name: task.weight for task in tasks}
    assert sorted(weights.values()) == [1, 2] and len(tasks) == 2
    (product,) = [task for task in tasks if task.weight == 2]
    assert "dense" in product.task_name and isinstance(product.mod["main"], relay.Function)
    (module,) = product.dispatched
    assert [g.name_hint for g in module.functions] == ["main"]
    contexts, given = extracted_tasks_to_tune_contexts(tasks, str(tmp_path), strategy="replay-trace", seed=1)
    assert [c.task_name for c in contexts] == list(weights) and given == list(weights.values())


class Products:
    """Schedules products: their rows are split by 3, so that the text of the kernel has a loop over 2."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.scheduled = 0

    def __call__(self, sch: Schedule) -> bool:
        self.asked.append(str(sch.mod))
        for rv in sch.get_child_blocks(sch.get_block("root")):
            block = sch.get(rv)
            if block.init is not None and len(block.iter_vars) == 3 and "exp" not in str(block):
                try:
                    sch.split(sch.get_loops(rv)[0], [None, 3])
                except ScheduleError:
                    return False
                self.scheduled += 1
                return True
        return False


@pytest.mark.parametrize("backend", ["graph", "vm"])
def test_builds_use_the_database(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    mod, params = model()
    schedule = Products()
    with caplog.at_level(logging.WARNING, "tilewright.meta_schedule"):
        built = compile_relay(D.ScheduleFnDatabase(schedule), mod, "llvm", params, backend=backend)
    # Kernels are compiled once, however often they are called.
    assert schedule.scheduled == 1 and len(schedule.asked) == 2
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith("the database has no record of fused_nn_softmax")
    if backend == "graph":
        np.testing.assert_allclose(result(built), expected(), rtol=1e-5)
    else:
        from tilewright.runtime.vm import VirtualMachine

        got = VirtualMachine(built, tvm.cpu()).invoke("main", tvm.nd.array(X))
        np.testing.assert_allclose(got.numpy(), expected(), rtol=1e-5)


def test_only_an_option_lets_builds_use_it() -> None:
    mod, params = model()
    schedule = Products()
    with D.ScheduleFnDatabase(schedule), tvm.transform.PassContext(opt_level=3):
        assert not is_meta_schedule_enabled()
        relay.build(mod, "llvm", params=params)
    assert schedule.asked == []
    with D.ScheduleFnDatabase(schedule), tvm.transform.PassContext(opt_level=3, config=USES):
        assert is_meta_schedule_enabled()
        built = relay.build(mod, "llvm", params=params)
    assert schedule.scheduled == 1
    np.testing.assert_allclose(result(built), expected(), rtol=1e-5)
    with (
        tvm.transform.PassContext(opt_level=3, config=USES),
        pytest.warns(UserWarning, match="asks for records of meta_schedule, but no database is in use"),
    ):
        relay.build(mod, "llvm", params=params)
    with pytest.raises(ValueError, match='the backend of a model is "graph" or "vm", but \'other\' was given'):
        compile_relay(D.MemoryDatabase(), mod, "llvm", params, backend="other")


def test_a_model_is_tuned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mod, params = model()
    given: dict[str, Any] = {
        "builder": Written(tmp_path), "runner": Formula(), "cost_model": Knowing(), "strategy": small_search(),
        "num_trials_per_iter": 2, "seed": 1, "task_scheduler": "round-robin",
    }  # fmt: skip
    database = tune_relay(mod, params, "llvm", str(tmp_path / "work"), 4, **given)
    assert len(database) == 4
    # As another process finds them.
    again = D.JSONDatabase(work_dir=str(tmp_path / "work"))
    with caplog.at_level(logging.WARNING, "tilewright.meta_schedule"), warnings.catch_warnings():
        warnings.simplefilter("error")
        built = ms.relay_integration.compile_relay(again, mod, "llvm", params)
    assert [r for r in caplog.records if "no record" in r.getMessage()] == []
    np.testing.assert_allclose(result(built), expected(), rtol=1e-5)
