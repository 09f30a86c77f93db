"""Pipelines of modules: equal to running them one after the other, whatever the graph; errors, saving, stopping."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, runtime
from tilewright.contrib import pipeline_executor, pipeline_executor_build
from tilewright.contrib.pipeline_executor import PipelineModule
from tilewright.contrib.pipeline_executor_build import PipelineConfig
from tilewright.relay.backend import Executor

SHAPE = (4, 8)


def module(names: list[str], body: Any) -> tvm.IRModule:
    params = [relay.var(n, shape=SHAPE) for n in names]
    return tvm.IRModule.from_expr(relay.Function(params, body(*params)))


A = module(["data_0"], lambda x: relay.Tuple([relay.add(x, relay.const(1.0)), relay.multiply(x, relay.const(2.0))]))
B = module(["data_0", "w"], lambda x, w: relay.multiply(relay.exp(x), w))
C = module(["a", "b"], lambda a, b: relay.Tuple([relay.add(a, b), relay.subtract(a, b)]))
W = np.full(SHAPE, 3, "float32")


def config() -> PipelineConfig:
    """d -> A -> (B, C); B -> C; C gives both outputs. B's w is a parameter."""
    c = PipelineConfig()
    c["input"]["d"].connect(c[A]["input"]["data_0"])
    c[A]["output"][0].connect(c[B]["input"]["data_0"])
    c[A]["output"][1].connect(c[C]["input"]["a"])
    c[B]["output"][0].connect(c[C]["input"]["b"])
    c[C]["output"][0].connect(c["output"]["0"])
    c[C]["output"][1].connect(c["output"]["1"])
    c["param_group"]["p"].connect(c[B]["param"])
    for m in (A, B, C):
        c[m].target, c[m].dev = "llvm", tvm.cpu(0)
    c[B].cpu_affinity = "0"
    return c


def wanted(x: np.ndarray) -> list[np.ndarray]:
    a, b = x * 2, np.exp(x + 1) * W
    return [a + b, a - b]


def check(pipeline: PipelineModule, count: int = 40) -> None:
    rng = np.random.default_rng(1)
    pipeline.set_params("p", {"w": W})
    inputs = [rng.random(SHAPE, "float32") for _ in range(count)]
    for x in inputs:
        pipeline.set_input("d", x)
        pipeline.run()
    for x in inputs:
        found = pipeline.get_output()
        assert len(found) == 2
        for f, w in zip(found, wanted(x), strict=True):
            np.testing.assert_allclose(f.numpy(), w, rtol=1e-5)
    assert pipeline.get_output() == [] and pipeline.num_executing_pipeline == count


@pytest.fixture(scope="module")
def factory() -> Any:
    assert pipeline_executor.pipeline_executor_enabled() and pipeline_executor_build.pipeline_executor_build_enabled()
    with tvm.transform.PassContext(opt_level=3):
        return pipeline_executor_build.build(config())


def test_equal_to_one_after_the_other(factory: Any) -> None:
    pipeline = PipelineModule(factory)
    check(pipeline)
    assert (pipeline.num_inputs, pipeline.num_outputs) == (1, 2)
    assert pipeline.get_input_pipeline_map("d") == ["0", "data_0"]
    assert pipeline.get_params_group_pipeline_map("p") == "1"
    assert pipeline.get_input("d").shape == SHAPE


def test_saved_and_loaded(factory: Any, tmp_path: Path) -> None:
    path = pipeline_executor_build.export_library(factory, str(tmp_path))
    check(PipelineModule.load_library(path), 5)
    with pytest.raises(RuntimeError, match=r"The directory .*absent does not exist\."):
        factory.export_library(tmp_path / "absent")
    with pytest.raises(ValueError, match="the pipeline's configuration .*none cannot be read: No such file"):
        PipelineModule.load_library(tmp_path / "none")
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(ValueError, match="bad is no configuration of a pipeline: load_config is missing"):
        PipelineModule.load_library(tmp_path / "bad")


def test_stages_of_other_executors() -> None:
    """A stage may be built by a function of the user's, here for the graph executor."""
    c = config()
    c[B].build_func = lambda mod, target, **options: relay.build(mod, target, executor=Executor("graph"), **options)
    check(PipelineModule(pipeline_executor_build.build(c)), 10)


def test_ends_by_functions() -> None:
    """Ends of a pipeline and numbers of its modules by the functions of older programs."""
    c = PipelineConfig()
    c[B]["output"][0].connect(c.pipe_output("0"))
    c[A]["output"][1].connect(c[B]["input"]["data_0"])
    c.pipe_input("d").connect(c[A]["input"]["data_0"])
    assert c.pipe_input("d") is c["input"]["d"]
    assert c.pipe_output("0") is c["output"]["0"]
    assert [c.get_mod_idx(m) for m in (A, B)] == [0, 1]
    with pytest.raises(ValueError, match="does not have the module"):
        c.get_mod_idx(C)


def test_configuration() -> None:
    found = config().get_config()
    assert found["input_connection"] == [
        {"global_interface_name": "d", "mod_idx": 0, "module_interface_name": "data_0"}
    ]
    assert found["param_connection"] == [{"global_interface_name": "p", "mod_idx": 1}]
    assert found["module_connection"][A]["pipeline"] == {
        "mod_idx": 0,
        "cpu_affinity": "",
        "output": [
            {"output_idx": 0, "dependencies": [{"mod_idx": 1, "input_name": "data_0"}]},
            {"output_idx": 1, "dependencies": [{"mod_idx": 2, "input_name": "a"}]},
        ],
    }
    assert found["module_connection"][C]["pipeline"]["output"][1]["dependencies"] == [{"global_output_index": 1}]


def test_configuration_as_text() -> None:
    assert str(config()).split("\n") == [
        *["Params", "|p: mod1:param", ""],
        *["Inputs", "|d: mod0:data_0", ""],
        *["output", "|output(0) : mod2.output(0)", "|output(1) : mod2.output(1)", ""],
        *["connections", "|mod0.output(0)-> mod1.data_0", "|mod0.output(1)-> mod2.a", "|mod1.output(0)-> mod2.b"],
    ]


def fresh() -> PipelineConfig:
    c = PipelineConfig()
    c["input"]["d"].connect(c[A]["input"]["data_0"])
    c[A]["output"][0].connect(c[B]["input"]["data_0"])
    return c


D = tvm.IRModule.from_expr(relay.exp(relay.var("z", shape=(3,))))
CONNECTIONS = [
    (
        lambda c: c["input"]["e"].connect(c["output"]["0"]),
        "the pipeline's input 'e' cannot be connected to the pipeline's output '0': it goes to an input of a module",
    ),
    (
        lambda c: c[A]["output"][1].connect(c[B]["input"]["data_0"]),
        "input 'data_0' of mod1 is connected to output 0 of mod0 already; each takes one value",
    ),
    (
        lambda c: c[B]["output"][0].connect(c[A]["input"]["data_0"]),
        "input 'data_0' of mod0 is connected to the pipeline's input 'd' already; each takes one value",
    ),
    (
        lambda c: c[A]["output"][1].connect(c[D]["input"]["z"]),
        "output 1 of mod0 is Tensor[(4, 8), float32], but input 'z' of mod2 is Tensor[(3,), float32]; connected inputs"
        " and outputs must have one type",
    ),
    (lambda c: c[A]["input"]["no"], "mod0 has no input 'no'; its inputs are: data_0"),
    (lambda c: c[A]["output"][2], "mod0 has no output 2; it has 2, numbered from 0"),
    (lambda c: c["inputs"], "'inputs' is neither a module nor one of 'input', 'output', 'param_group'"),
    (lambda c: c[A]["outputs"], '\'outputs\' is not part of a module; its parts are "input", "output" and "param"'),
    (
        lambda c: c[B]["input"]["w"].connect(c[A]["input"]["data_0"]),
        "input 'w' of mod1 cannot be connected to input 'data_0' of mod0: connect from an output, or from the pipeline",
    ),
    (
        lambda c: pipeline_executor_build.build(c),
        "input 'w' of mod1 is connected to nothing, and its params have no 'w'",
    ),
    (
        lambda c: pipeline_executor_build.build(PipelineConfig()),
        "the pipeline has no modules; name them with config[mod]",
    ),
]


@pytest.mark.parametrize(("act", "text"), CONNECTIONS)
def test_wrong_connections(act: Any, text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        act(fresh())
    assert str(caught.value).startswith(text)


def test_cycles() -> None:
    c = PipelineConfig()
    c[B]["output"][0].connect(c[C]["input"]["a"])
    with pytest.raises(RuntimeError, match="connecting output 0 of mod1 to input 'w' of mod0 would make a cycle"):
        c[C]["output"][0].connect(c[B]["input"]["w"])


# ---- running


def test_wrong_inputs(factory: Any) -> None:
    pipeline = PipelineModule(factory)
    with pytest.raises(ValueError, match=r"the input `d` of the pipeline was not set; call set_input first"):
        pipeline.run()
    with pytest.raises(ValueError, match="the pipeline has no input `e`; its inputs are: `d`"):
        pipeline.set_input("e", W)
    with pytest.raises(ValueError, match=r"the pipeline's input `d` must be \(4, 8\) float32, but is \(2,\) float32"):
        pipeline.set_input("d", np.zeros(2))
    with pytest.raises(ValueError, match="the pipeline has no parameter group 'q'; its groups are: 'p'"):
        pipeline.set_params("q", {})
    with pytest.raises(ValueError, match="the model has no input named `v`; its inputs are: `data_0`, `w`"):
        pipeline.set_params("p", {"v": W})
    with pytest.raises(ValueError, match="the pipeline has no input 'e'; its inputs are: d"):
        pipeline.get_input_pipeline_map("e")
    pipeline.stop()
    pipeline.set_input("d", W)
    with pytest.raises(RuntimeError, match="the pipeline was stopped"):
        pipeline.run()


class Stage:
    """A stage in Python, which may fail or wait."""

    def __init__(self, run: Any) -> None:
        self.x = tvm.nd.empty(SHAPE)
        self.y = tvm.nd.empty(SHAPE)
        self.functions = {
            "set_input": lambda key, value: self.x.copyfrom(value) and None,
            "get_input": lambda key: self.x,
            "get_output": lambda index: self.y,
            "run": lambda: run(self) and None,
        }
        functions = {k: runtime.convert_to_packed_func(f) for k, f in self.functions.items()}
        self.module = runtime.get_global_func("runtime.ModuleFromFinder")("test", functions.get)


class Stages:
    """Stages in a row, as PipelineModule takes them."""

    def __init__(self, *runs: Any) -> None:
        self.stages = [Stage(r) for r in runs]

    def executors(self) -> list[Any]:
        return [s.module for s in self.stages]

    def native_config(self) -> dict[str, Any]:
        stages = [
            {"name": f"step{i}", "inputs": [{"name": "x", "from": i - 1, "index": 0}], "cpus": []}
            for i in range(len(self.stages))
        ]
        return {"stages": stages, "inputs": ["x"], "outputs": [{"stage": len(stages) - 1, "index": 0}], "params": {}}


def double(s: Stage) -> None:
    s.y.copyfrom(s.x.numpy() * 2)


def picky(s: Stage) -> None:
    if s.x.numpy()[0, 0] == 4:
        raise ValueError("no fours")
    double(s)


def test_errors_of_a_stage_come_out_of_its_run() -> None:
    pipeline = PipelineModule(Stages(double, picky, double))
    for i in range(5):
        pipeline.set_input("x", np.full(SHAPE, i, "float32"))
        pipeline.run()
    for i in range(5):
        if i == 2:
            with pytest.raises(ValueError, match=r"stage 1 of the pipeline \(step1\): .*no fours"):
                pipeline.get_output()
        else:
            np.testing.assert_array_equal(pipeline.get_output()[0].numpy(), np.full(SHAPE, 8 * i))


def test_stages_overlap() -> None:
    """Each stage is at another run at the same time: all of them meet at a barrier."""
    barrier = threading.Barrier(3, timeout=30)

    # The first stage waits only from run 2 on, the second from the run before, the third from the one before that.
    def stage(skipped: int) -> Any:
        calls = [0]

        def run(s: Stage) -> None:
            calls[0] += 1
            if calls[0] > skipped and calls[0] <= skipped + 3:
                barrier.wait()
            s.y.copyfrom(s.x)

        return run

    pipeline = PipelineModule(Stages(stage(2), stage(1), stage(0)))
    for i in range(6):
        pipeline.set_input("x", np.full(SHAPE, i, "float32"))
        pipeline.run()
    for i in range(6):
        np.testing.assert_array_equal(pipeline.get_output()[0].numpy(), np.full(SHAPE, i))


def test_outputs_without_waiting() -> None:
    go = threading.Event()
    pipeline = PipelineModule(Stages(lambda s: go.wait(30) and s.y.copyfrom(s.x)))
    assert pipeline.get_output() == []
    pipeline.set_input("x", W)
    pipeline.run()
    assert pipeline.get_output(synchronize=False) == []
    go.set()
    assert len(pipeline.get_output(sleep_interval=0.01)) == 1


def test_dropped_while_running() -> None:
    """A pipeline that is let go while a stage in Python runs ends without a deadlock."""
    pipeline = PipelineModule(Stages(lambda s: time.sleep(0.05), double))
    for _ in range(3):
        pipeline.set_input("x", W)
        pipeline.run()
    del pipeline
    gc.collect()
    check_alive = PipelineModule(Stages(double))
    check_alive.set_input("x", W)
    check_alive.run()
    np.testing.assert_array_equal(check_alive.get_output()[0].numpy(), 2 * W)


def test_types_of_connected_stages() -> None:
    stages = Stages(double, double)
    stages.stages[1].x = tvm.nd.empty((2,))
    with pytest.raises(
        ValueError,
        match=r"output 0 of stage 0 \(step0\) is \(4, 8\) float32, but the input `x` of stage 1 \(step1\) that it is",
    ):
        PipelineModule(stages)
    with pytest.raises(ValueError, match="has 2 stages, but 1 modules were given"):
        broken: Any = Stages(double, double)
        broken.executors = lambda: [Stage(double).module]
        PipelineModule(broken)
