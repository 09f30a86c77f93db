"""Single calls under their classic names."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tests.auto_scheduler.test_tasks import task_of
from tilewright import auto_scheduler, te
from tilewright.auto_scheduler import feature, measure, utils, workload_registry
from tilewright.contrib.popen_pool import PopenWorker


def test_programs_are_built_and_measured() -> None:
    task = task_of("tests.matmul_add", 8, 8, 8)
    inp = measure.MeasureInput(task, task.compute_dag.init_state)
    again = measure.MeasureInput.deserialize(inp.serialize())
    assert again.task.workload_key == task.workload_key and len(again.state.stages) == len(inp.state.stages)
    built = measure.local_builder_build([inp, again], 60, 1, verbose=0)
    results = measure.local_run([inp, again], built, repeat=2, verbose=0)
    assert [b.error_no for b in built] == [r.error_no for r in results] == [0, 0]
    assert all([0 < cost < 1 for r in results for cost in r.costs])


def test_workloads_for_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((4,), name="a")
    key = workload_registry.register_workload_tensors("tests.kept", [a, te.compute((4,), lambda i: a[i] + 1.0)])
    data = workload_registry.serialize_workload_registry_entry(key)
    del workload_registry.WORKLOAD_FUNC_REGISTRY[key]
    workload_registry.deserialize_workload_registry_entry(data)
    assert [tuple(map(int, t.shape)) for t in workload_registry.workload_key_to_tensors(key)] == [(4,), (4,)]
    with pytest.raises(auto_scheduler.workload_registry.TVMError, match="not registered"):
        workload_registry.serialize_workload_registry_entry('["tests.unknown", 1]')


def fails(x: int) -> None:
    raise ValueError(f"not {x}")


def test_calls_in_threads_and_processes() -> None:
    assert utils.call_func_with_thread(max, (1, 3), {}) == 3
    with pytest.raises(ValueError, match="not 2"):
        utils.call_func_with_thread(fails, (2,), {})
    worker = PopenWorker()
    try:
        assert utils.call_func_with_timeout(worker, 20, max, (1, 3)) == 3
        assert isinstance(utils.call_func_with_timeout(worker, 20, fails, (2,)), ValueError)
        assert isinstance(utils.call_func_with_timeout(worker, 0.2, time.sleep, (20,)), TimeoutError)
    finally:
        worker.kill()
    try:
        fails(3)
    except ValueError:
        assert "ValueError: not 3" in utils.make_traceback_info()
    assert not utils.check_remote("none", "127.0.0.1", 1, timeout=1)


def test_numbers() -> None:
    assert utils.array_mean([1, 2.0, 6]) == 3.0
    assert utils.to_str_round([1, 0.5, (2.25,)], 2) == "[1, 0.50, [2.25]]"
    entries: dict[str, Any] = {}
    entry, kind, args = auto_scheduler.ApplyHistoryBest.get_workload_entry(entries, "llvm", '["matmul", 4, [8]]')
    entry["x"] = 1
    assert entries == {"llvm": {"matmul": {"x": 1}}} and (kind, args) == ("matmul", (4, (8,)))


def test_features_of_a_function() -> None:
    a = te.placeholder((16, 8), name="a")
    func = te.create_prim_func([a, te.compute((16, 8), lambda i, j: a[i, j] * 2.0, name="b")])
    plain, scaled = (feature.named_features_from_primfunc(func, log_scale=log) for log in (False, True))
    assert list(plain) == feature.get_per_store_feature_names() and plain["outer_product"].tolist() == [128.0]
    np.testing.assert_allclose(scaled["outer_product"], np.log2(129), rtol=1e-6)
