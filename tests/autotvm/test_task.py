"""Templates and tasks, contexts, templates of operators."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.autotvm import templates
from tilewright import autotvm, te
from tilewright.autotvm import task as tasks
from tilewright.autotvm.task.task import TASK_TABLE, compute_flop
from tilewright.autotvm.task.topi_integration import TaskExtractEnv, get_workload
from tilewright.support.errors import TVMError
from tilewright.target import Target


def product(built: Any, n: int) -> None:
    random = np.random.default_rng(0)
    a, b = (random.uniform(size=(n, n)).astype("float32") for _ in range(2))
    c = tvm.nd.empty((n, n))
    built(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_arguments_as_logs_hold_them() -> None:
    tensor = te.placeholder((4, 8), dtype="int8")
    written = tasks.serialize_args([tensor, 3, (1, [2.5, "x"]), None, tvm.tir.IntImm("int32", 7), (tensor,)])
    assert written == (("TENSOR", (4, 8), "int8"), 3, (1, (2.5, "x")), None, 7, (("TENSOR", (4, 8), "int8"),))
    read = tasks.deserialize_args(written)
    assert (
        tuple(read[0].shape) == (4, 8) and str(read[0].dtype) == "int8" and read[1:5] == [3, (1, (2.5, "x")), None, 7]
    )
    assert tasks.serialize_args(read) == written
    assert tasks.args_to_workload([tensor], "dense") == ("dense", ("TENSOR", (4, 8), "int8"))
    with pytest.raises(RuntimeError, match="one is of object"):
        tasks.serialize_args([object()])


def test_a_task_makes_the_schedule_of_a_configuration() -> None:
    task = templates.task(32)
    assert task.flop == 2 * 32**3 and task.workload == ("test/matmul", 32)
    config = task.config_space.get(13)
    with task.target:
        s, args = task.instantiate(config)
        assert config.flop == task.flop
        product(tvm.build(s, args, "llvm"), 32)
    again = pickle.loads(pickle.dumps(task))
    assert again.workload == task.workload and again.instantiate(again.config_space.get(0))


def test_unknown_templates() -> None:
    with pytest.raises(RuntimeError, match="no template 'test/none' in this process: import the module"):
        tasks.create("test/none", (), "llvm")
    with pytest.raises(ValueError, match="there is a template 'test/matmul' already"):
        autotvm.template("test/matmul", lambda: None)
    with pytest.raises(TypeError, match="takes its arguments by place, but n was named"):
        templates.matmul(n=3)


def test_operations_are_counted() -> None:
    a, b = te.placeholder((4, 8)), te.placeholder((4, 8), dtype="int32")
    half = te.compute((4, 8), lambda i, j: te.max(a[i, j], 0.0) * 2.0 + 1.0)
    whole = te.compute((4,), lambda i: half[i, 0] + b[i, 0].astype("float32"))
    assert compute_flop(te.create_schedule(whole.op)) == 4 * 8 * 3 + 4
    copy = te.compute((4, 8), lambda i, j: a[i, j])
    with pytest.raises(RuntimeError, match="say how many there are by cfg.add_flop"):
        compute_flop(te.create_schedule(copy.op))
    n = te.var("n")
    c = te.placeholder((n,))
    with pytest.raises(RuntimeError, match="depend on its shape"):
        compute_flop(te.create_schedule(te.compute((n,), lambda i: c[i] + 1.0).op))


def test_operations_that_a_template_says() -> None:
    @autotvm.template("test/says_flop")
    def copy(n: int) -> Any:
        autotvm.get_config().add_flop(5 * n)
        a = te.placeholder((n,))
        b = te.compute((n,), lambda i: a[i])
        return te.create_schedule(b.op), [a, b]

    assert tasks.create("test/says_flop", (8,), "llvm").flop == 40


def test_contexts() -> None:
    task, target = templates.task(32), Target("llvm")
    first, second = task.config_space.get(1), task.config_space.get(2)
    with tasks.ApplyConfig(first) as outer:
        assert autotvm.get_config() is first
        with tasks.ApplyConfig(second):
            assert autotvm.get_config() is second
        assert autotvm.get_config() is first
        with target, autotvm.apply_history_best([]) as history:
            # What the records do not have, the context around them has.
            assert autotvm.DispatchContext.current.query(target, task.workload) is first
            history.update(target, task.workload, second)
            assert autotvm.DispatchContext.current.query(target, task.workload) is second
        assert outer.workload == task.workload
    with pytest.raises(RuntimeError, match="wrap the call in `with tvm.target.Target"):
        autotvm.apply_history_best([]).query(None, task.workload)


def test_fallback_context_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "autotvm"), Target("llvm"):
        s, args = templates.matmul(24)
        templates.matmul(24)
        product(tvm.build(s, args), 24)
    assert [r.message for r in caplog.records] == [
        "Cannot find config for target=llvm -keys=cpu, workload=('test/matmul', 24). A fallback configuration is used, which may bring"
        " great performance regression."
    ]
    known = autotvm.DispatchContext.current.query(Target("llvm"), ("test/matmul", 24))
    tasks.clear_fallback_cache(Target("llvm"), ("test/matmul", 24))
    assert autotvm.DispatchContext.current.query(Target("llvm"), ("test/matmul", 24)) is not known


def test_the_fastest_of_records(tmp_path: Path) -> None:
    task = templates.task(32)
    seconds = {3: 0.4, 13: 0.1, 20: 0.2, 21: 0.01}
    pairs = [
        (
            autotvm.MeasureInput(task.target, task, task.config_space.get(i)),
            templates.result(t, error=4 if i == 21 else 0),
        )
        for i, t in seconds.items()
    ]
    path = tmp_path / "some" / "log.json"
    autotvm.record.write(path, pairs)
    for records in (pairs, path, str(path), [path], path.open()):
        with autotvm.apply_history_best(records), Target("llvm -mcpu=core-avx2"):
            assert autotvm.DispatchContext.current.query(Target.current(), task.workload).index == 13
            s, args = templates.matmul(32)
        product(tvm.build(s, args, "llvm"), 32)
    with autotvm.apply_graph_best(path), Target("llvm") as target:
        found = [autotvm.DispatchContext.current.query(target, ("w", i)) for i in (0, 1, 2, 3, 1, 9)]
        assert [f.index for f in found[:5]] == [3, 13, 20, 21, 13] and found[5].is_fallback
    with autotvm.apply_fixed_config([task], "test/matmul"):
        assert autotvm.DispatchContext.current.query(task.target, task.workload).cost == 1e-6
        with pytest.raises(RuntimeError, match="no task has the template"):
            autotvm.DispatchContext.current.query(task.target, ("other",))


@autotvm.register_topi_compute("test/scale")
def scale(cfg: Any, data: te.Tensor, factor: float) -> te.Tensor:
    cfg.define_split("tile", data.shape[0], num_outputs=2)
    return te.compute(data.shape, lambda i: data[i] * factor, name="scale", attrs={"mine": 1})


@autotvm.register_topi_schedule("test/scale")
def schedule_scale(cfg: Any, outs: Any) -> te.Schedule:
    s = te.create_schedule([t.op for t in outs])
    _, inner = cfg["tile"].apply(s, outs[0], s[outs[0]].op.axis[0])
    s[outs[0]].vectorize(inner)
    return s


def test_templates_of_operators() -> None:
    data = te.placeholder((32,), name="data")
    task = tasks.create("test/scale", (data, 2.0), "llvm")
    assert task.args == (("TENSOR", (32,), "float32"), 2.0) and len(task.config_space) == 6 and task.flop == 32
    s, args = task.instantiate(task.config_space.get(3))
    built = tvm.build(s, args, "llvm")
    given, found = tvm.nd.array(np.arange(32, dtype="float32")), tvm.nd.empty((32,))
    built(given, found)
    np.testing.assert_array_equal(found.numpy(), np.arange(32) * 2.0)

    with Target("llvm"), tasks.ApplyConfig(task.config_space.get(2)):
        out = scale(data, 2.0)
        assert get_workload([out]) == ("test/scale", ("TENSOR", (32,), "float32"), 2.0) and out.op.attrs["mine"] == 1
        assert get_workload(out, "test/other") is None
        after = te.compute((32,), lambda i: out[i] + 1.0)
        assert get_workload(after, "test/scale") == get_workload(out)
        assert schedule_scale([out])
    with pytest.raises(RuntimeError, match="nothing that is scheduled is a workload of 'test/scale'"):
        schedule_scale([te.compute((32,), lambda i: data[i])])


def test_workloads_are_collected() -> None:
    env = TaskExtractEnv.get()
    data = te.placeholder((8,))
    with tasks.ApplyConfig(tasks.ConfigSpace()):
        with env:
            scale(data, 1.0), scale(data, 1.0), scale(data, 2.0)
        scale(data, 3.0)
    assert env.get_tasks() == [("test/scale", (("TENSOR", (8,), "float32"), f)) for f in (1.0, 2.0)]
    env.reset()
    assert env.get_tasks() == [] and TaskExtractEnv.get() is env


def test_a_filter_of_a_template_holds_for_its_task() -> None:
    @autotvm.template("test/filtered")
    def filtered(n: int) -> Any:
        a = te.placeholder((n,))
        b = te.compute((n,), lambda i: a[i] + 1.0)
        s, cfg = te.create_schedule(b.op), autotvm.get_config()
        cfg.define_split("t", s[b].op.axis[0], num_outputs=2)
        cfg.define_knob("k", [1, 2])
        cfg.multi_filter(lambda e: e["t"].size[-1] * e["k"].val <= 8)
        return s, [a, b]

    task = tasks.create("test/filtered", (16,), "llvm")
    assert (len(task.config_space), task.config_space.range_length) == (7, 10)
    with pytest.raises(TVMError, match="no configuration"):
        tasks.ConfigEntity.from_json_dict({})
    assert "test/filtered" in TASK_TABLE
