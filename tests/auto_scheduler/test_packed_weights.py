"""Weights of models in the layouts that records want."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.auto_scheduler.test_relay_integration import OPTION, SMALL
from tests.auto_scheduler.test_tasks import MACHINE, options
from tests.slow import all_but, seeds
from tilewright import auto_scheduler, relay
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.measure_programs import packings_of
from tilewright.auto_scheduler.sampling import Sampler
from tilewright.auto_scheduler.sketch_rules import Problem, generate
from tilewright.contrib import graph_executor

NAME = "auto_scheduler_layout_transform"


def product() -> tuple[tvm.IRModule, dict[str, Any], tuple[int, ...]]:
    x, w = relay.var("x", shape=(6, 24)), relay.var("w", shape=(40, 24))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), relay.var("b", shape=(40,))))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y)), {"w": (40, 24), "b": (40,)}, (6, 24)


def convolution() -> tuple[tvm.IRModule, dict[str, Any], tuple[int, ...]]:
    x, w = relay.var("x", shape=(1, 16, 6, 6)), relay.var("w", shape=(32, 16, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1), strides=(2, 2)))
    return tvm.IRModule.from_expr(relay.Function([x, w], y)), {"w": (32, 16, 3, 3)}, (1, 16, 6, 6)


def products_of_batches() -> tuple[tvm.IRModule, dict[str, Any], tuple[int, ...]]:
    x, w = relay.var("x", shape=(2, 4, 8)), relay.var("w", shape=(2, 12, 8))
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.batch_matmul(x, w))), {"w": (2, 12, 8)}, (2, 4, 8)


def built(mod: tvm.IRModule, params: dict[str, Any], config: dict[str, Any], disabled: list[str] | None = None) -> Any:
    with tvm.transform.PassContext(opt_level=3, config=config, disabled_pass=disabled or []):
        return relay.build(mod, "llvm", params=params)


def output(library: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    return np.array(module.get_output(0).numpy())


@pytest.mark.parametrize("model", all_but([product, convolution], [product, convolution, products_of_batches]))
@pytest.mark.parametrize("seed", seeds(4, 1))
def test_models_compute_the_same_with_packed_weights(model: Any, seed: int) -> None:
    mod, shapes, given = model()
    random = np.random.default_rng(seed)
    params = {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    x = random.standard_normal(given).astype("float32")
    (task,), _ = auto_scheduler.extract_tasks(mod, params, "llvm", hardware_params=MACHINE)
    assert task.layout_rewrite_option == auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    sketches = generate(Problem(task.compute_dag, MACHINE))
    state = Sampler(task.compute_dag, MACHINE).sample(sketches[seed % len(sketches)], Random(seed))
    record = MeasureInput(task, state)
    (packing,) = packings_of(record)
    with auto_scheduler.ApplyHistoryBest([(record, MeasureResult([1e-3]))]):
        library = built(mod, params, OPTION)
        plain = built(mod, params, OPTION, ["AutoSchedulerLayoutRewrite"])
    untuned = output(built(mod, params, {}), x)
    for made in (library, plain):
        np.testing.assert_allclose(output(made, x), untuned, rtol=1e-4, atol=1e-4)
    assert NAME in str(library.ir_mod) and NAME not in str(plain.ir_mod)
    assert f"Tensor[({', '.join([str(p.extent) for p in packing.new])})" in str(library.ir_mod)


def test_weights_that_are_inputs_stay() -> None:
    mod, shapes, _ = product()
    params = {name: np.ones(shape, "float32") for name, shape in shapes.items()}
    (task,), _ = auto_scheduler.extract_tasks(mod, {"b": params["b"]}, "llvm", hardware_params=MACHINE)
    sketch = generate(Problem(task.compute_dag, MACHINE))[0]
    record = MeasureInput(task, Sampler(task.compute_dag, MACHINE).sample(sketch, Random(0)))
    assert packings_of(record) == ()
    with auto_scheduler.ApplyHistoryBest([(record, MeasureResult([1e-3]))]):
        assert NAME not in str(built(mod, {"b": params["b"]}, OPTION).ir_mod)


def test_a_model_is_tuned_on_packed_weights(tmp_path: Path) -> None:
    mod, shapes, given = product()
    random, log = np.random.default_rng(3), tmp_path / "log.json"
    params = {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    tasks, weights = auto_scheduler.extract_tasks(mod, params, "llvm", hardware_params=MACHINE)
    tuner = auto_scheduler.TaskScheduler(tasks, weights, callbacks=[])
    tuner.tune(options(log, 4), search_policy="sketch.random", search_policy_params=SMALL)
    records = list(auto_scheduler.load_records(str(log)))
    assert {int(inp.task.layout_rewrite_option) for inp, _ in records} == {2}
    assert [res.error_no for _, res in records] == [0] * len(records) and records
    with auto_scheduler.ApplyHistoryBest(str(log)):
        library = built(mod, params, OPTION)
    x = random.standard_normal(given).astype("float32")
    np.testing.assert_allclose(output(library, x), output(built(mod, params, {}), x), rtol=1e-4, atol=1e-4)


def test_the_operator_turns_back() -> None:
    x = relay.var("x", shape=(6, 8))
    there = relay.op.lookup(NAME)(x, src_layout="6a8b", dst_layout="2b6a4b")
    back = relay.op.lookup(NAME)(there, src_layout="2b6a4b", dst_layout="6a8b")
    values = np.arange(48, dtype="float32").reshape(6, 8)
    module = relay.create_executor(
        "graph", tvm.IRModule.from_expr(relay.Function([x], relay.exp(back))), tvm.cpu(), "llvm"
    )
    np.testing.assert_allclose(module.evaluate()(values).numpy(), np.exp(values), rtol=1e-5)
    with pytest.raises(tvm.TVMError, match="both layouts must have the same axes"):
        relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.Function([x], relay.op.lookup(NAME)(x, src_layout="6a8b", dst_layout="6a4b")))
        )
