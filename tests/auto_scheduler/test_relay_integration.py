"""The kernels of models as tasks, and builds that use their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.auto_scheduler.test_tasks import MACHINE, TARGET, options
from tilewright import TVMError, auto_scheduler, relay, te
from tilewright.auto_scheduler import measure_record
from tilewright.auto_scheduler.relay_integration import TracingEnvironment, TracingMode, call_all_topi_funcs
from tilewright.codegen.backend import IS_SCHEDULED
from tilewright.contrib import graph_executor
from tilewright.relay.backend.te_compiler import TECompiler

OPTION = {"relay.backend.use_auto_scheduler": True}
SMALL = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 1, "sample_init_min_population": 2}


def model() -> tuple[tvm.IRModule, dict[str, Any]]:
    """Two products of the same shapes, and a kernel without a reduction."""
    random = np.random.default_rng(1)
    x = relay.var("x", shape=(4, 16))
    y: Any = x
    for name in ("w0", "w1"):
        y = relay.nn.relu(relay.nn.dense(y, relay.var(name, shape=(16, 16))))
    y = relay.reshape(relay.transpose(relay.reshape(y, (4, 4, 4)), (0, 2, 1)), (4, 16))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
    return mod, {name: random.standard_normal((16, 16)).astype("float32") for name in ("w0", "w1")}


def built(mod: tvm.IRModule, params: dict[str, Any], config: dict[str, Any] | None = None) -> Any:
    with tvm.transform.PassContext(opt_level=3, config=config or {}):
        return relay.build(mod, "llvm", params=params)


def output(library: Any) -> np.ndarray[Any, Any]:
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", np.linspace(-1, 1, 64, dtype="float32").reshape(4, 16))
    module.run()
    return np.array(module.get_output(0).numpy())


class Asked(auto_scheduler.ApplyHistoryBest):
    """Notes the kernels whose programs are known, each once: a build asks for layouts of weights, and for schedules."""

    def __init__(self, records: Any) -> None:
        super().__init__(records)
        self.known: list[str] = []

    def query(self, target: Any, workload_key: str, has_complex_op: bool, dag: Any, func_name: str) -> Any:
        found = super().query(target, workload_key, has_complex_op, dag, func_name)
        if found is not None and func_name not in self.known:
            self.known.append(func_name)
        return found


def test_a_model_is_tuned_and_built_by_its_records(tmp_path: Path) -> None:
    (mod, params), log, dump = model(), tmp_path / "log.json", tmp_path / "dags.json"
    tasks, weights = auto_scheduler.extract_tasks(
        mod["main"], params, "llvm", hardware_params=MACHINE, dump_workload_to_dag_log=dump
    )
    assert (
        weights == [2]
        and tasks[0].desc == "fused_nn_contrib_dense_pack_nn_relu"
        and tasks[0].hardware_params == MACHINE
    )
    assert "T_relu" in json.loads(dump.read_text())[tasks[0].workload_key]
    tuner = auto_scheduler.TaskScheduler(tasks, weights, callbacks=[])
    tuner.tune(options(log, 3), search_policy="sketch.random", search_policy_params=SMALL)
    with Asked(str(log)) as context:
        library = built(mod, params, OPTION)
    assert context.known == ["fused_nn_contrib_dense_pack_nn_relu"]
    np.testing.assert_allclose(output(library), output(built(mod, params)), rtol=1e-5, atol=1e-5)


def test_kernels_without_records_are_as_in_other_builds() -> None:
    mod, params = model()
    plain, asked = built(mod, params), built(mod, params, OPTION)
    assert asked.lib.get_source() == plain.lib.get_source() != ""


def test_a_record_is_the_schedule_of_its_kernel() -> None:
    x, w = relay.var("x", shape=(8, 16)), relay.var("w", shape=(8, 16))
    func = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))))["main"]
    target = tvm.target.Target("llvm")
    with tvm.transform.PassContext(config=OPTION):
        env = TracingEnvironment(TracingMode.EXTRACT_TASK)
        with env:
            TECompiler(target).kernel(func)
        ((name, key),) = env.func_name_to_wkl_key.items()
        dag = auto_scheduler.ComputeDAG(key)
        state = dag.get_init_state()
        state.split(2, state[2].iters[0], [2])
        with auto_scheduler.ApplyHistoryBest([]) as context:
            assert IS_SCHEDULED not in TECompiler(target).kernel(func).func.attrs
            context.update(target, key, state)
            kernel = TECompiler(target).kernel(func)
    assert name == kernel.name == "fused_nn_dense" and kernel.func.attrs[IS_SCHEDULED] and not kernel.in_place
    assert "i0_0, i0_1" in str(kernel.func) or "i0_outer" in str(kernel.func)


def test_programs_are_sampled_where_there_are_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.auto_scheduler import sampled_programs

    monkeypatch.setattr(sampled_programs, "EFFORT", SMALL)
    mod, params = model()
    with auto_scheduler.ApplyHistoryBestOrSample(None) as context:
        library = built(mod, params, OPTION)
        assert len(context._set) == 1
    np.testing.assert_allclose(output(library), output(built(mod, params)), rtol=1e-5, atol=1e-5)


def test_simple_kernels_are_tasks_where_they_are_asked_for() -> None:
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    assert auto_scheduler.extract_tasks(mod, {}, TARGET)[0] == []
    (task,), weights = auto_scheduler.extract_tasks(mod, {}, TARGET, include_simple_tasks=True)
    assert (task.desc, weights) == ("fused_exp", [1])
    errors: list[str] = []
    with TracingEnvironment(TracingMode.EXTRACT_TASK) as env:
        call_all_topi_funcs(mod, {}, TARGET, errors)
        assert TracingEnvironment.current is env
    assert list(env.func_name_to_wkl_key) == ["fused_exp"] and not errors
    with pytest.raises(TVMError, match="takes one target"):
        auto_scheduler.extract_tasks(mod, {}, TARGET, other_targets=["llvm"])


def test_is_enabled_by_the_option() -> None:
    assert not auto_scheduler.is_auto_scheduler_enabled()
    with tvm.transform.PassContext(config=OPTION):
        assert auto_scheduler.is_auto_scheduler_enabled()


def test_computes_read_rewritten_layouts() -> None:
    """A compute whose indices are those of the old layout, on a parameter in the new one."""
    assert auto_scheduler.get_shape_from_rewritten_layout("2j4k4j", ["j", "k"]) == [8, 4]
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((8, 4), name="B")
    auto_scheduler.rewrite_tensor_shape(b, [2, 4, 4])
    auto_scheduler.remove_index_check(b)
    k = te.reduce_axis((0, 4), name="k")
    attrs = {"layout_free_placeholders": [b]}
    c = te.compute((3, 8), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C", attrs=attrs)
    made = auto_scheduler.rewrite_compute_body(c, "2j4k4j")
    x, y = (np.random.default_rng(1).standard_normal(s).astype("float32") for s in ((3, 4), (8, 4)))
    found = tvm.nd.array(np.zeros((3, 8), "float32"))
    packed = np.ascontiguousarray(y.reshape(2, 4, 4).transpose(0, 2, 1))
    tvm.build(te.create_schedule(made.op), [a, b, made], "llvm")(tvm.nd.array(x), tvm.nd.array(packed), found)
    np.testing.assert_allclose(found.numpy(), x @ y.T, rtol=1e-5)
    with pytest.raises(TVMError, match="a layout is a text"):
        auto_scheduler.rewrite_compute_body(c, "2z")


def test_records_of_other_targets_are_not_used(tmp_path: Path) -> None:
    (mod, params), log = model(), tmp_path / "log.json"
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm", hardware_params=MACHINE)
    tasks[0].tune(options(log, 1), auto_scheduler.EmptyPolicy(tasks[0]))
    line = json.loads(log.read_text())
    line["i"][0][1] = "cuda"
    log.write_text(json.dumps(line))
    assert [e.target for e in measure_record.classic_log.entries(log)] == ["cuda"]
    with Asked(str(log)) as context:
        built(mod, params, OPTION)
    assert context.known == []
