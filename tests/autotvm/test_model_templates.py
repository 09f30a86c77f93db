"""Models whose operators have templates of topi: their tasks, and builds with records, beside plain builds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import autotvm, relay
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.contrib import graph_executor

ARM = "llvm -device=arm_cpu"
Pairs = list[tuple[MeasureInput, MeasureResult]]


def weights(*shape: int) -> Any:
    return relay.const(np.random.default_rng(sum(shape)).standard_normal(shape, dtype="float32") / 8)


def conv(x: Any, *shape: int, **attrs: Any) -> Any:
    return relay.nn.conv2d(x, weights(*shape), channels=shape[0], kernel_size=shape[2:], **attrs)


def network() -> tvm.IRModule:
    """Two convolutions, a depthwise one between them, a dense layer, and a product of its result by itself."""
    x = relay.var("x", shape=(1, 3, 8, 8))
    y = relay.nn.relu(relay.nn.bias_add(conv(x, 16, 3, 3, 3, padding=(1, 1)), weights(16)))
    y = relay.nn.relu(conv(y, 16, 1, 3, 3, padding=(1, 1), groups=16))
    y = relay.nn.relu(conv(y, 24, 16, 1, 1, strides=(2, 2)))
    y = relay.nn.relu(relay.nn.dense(relay.nn.batch_flatten(y), weights(12, 24 * 16)))
    y = relay.reshape(y, (1, 3, 4))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.batch_matmul(y, y)))


def drawn(tasks: list[Any], seed: int) -> Pairs:
    """A record of each task, of a configuration drawn at random."""
    rng = np.random.default_rng(seed)
    pairs = []
    for task in tasks:
        space = task.config_space
        index = next(i for i in (int(rng.integers(space.range_length)) for _ in range(999)) if space.is_index_valid(i))
        cost = float(rng.random())
        config = space.get(index)
        config.cost = cost
        pairs.append((MeasureInput(task.target, task, config), MeasureResult((cost,), 0, 0, 0)))
    return pairs


def built(mod: tvm.IRModule, target: str, level: int) -> Any:
    with tvm.transform.PassContext(opt_level=level):
        return relay.build(mod, target)


def result(library: Any, x: Any) -> Any:
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.run(x=x)
    return run.get_output(0).numpy()


def kernels(library: Any) -> list[str]:
    return [k["name"] for k in library.metadata["kernels"] if "autotvm_template" in k["name"]]


def extracted(mod: tvm.IRModule, target: str) -> list[Any]:
    with tvm.transform.PassContext(opt_level=3):
        return autotvm.task.extract_from_program(mod["main"], target=target, params={})


@pytest.mark.parametrize(
    "target, names",
    [
        (
            "llvm",
            ["conv2d_NCHWc.x86", "depthwise_conv2d_NCHWc.x86", "conv2d_NCHWc.x86"],
        ),
        (
            ARM,
            [
                "conv2d_nchw_spatial_pack.arm_cpu",
                "conv2d_nchw_winograd.arm_cpu",
                "depthwise_conv2d_nchw.arm_cpu",
                "conv2d_nchw_spatial_pack.arm_cpu",
            ],
        ),
    ],
)
def test_models_are_built_with_records(target: str, names: list[str]) -> None:
    mod, x = network(), np.random.default_rng(0).standard_normal((1, 3, 8, 8), dtype="float32")
    tasks = extracted(mod, target)
    dense = ["dense_nopack.x86", "dense_pack.x86", *(["dense_gemm.arm_cpu"] if target == ARM else [])]
    assert [t.name for t in tasks] == [*names, *dense, "batch_matmul.x86"]
    plain = built(mod, target, 3)
    want = result(plain, x)
    assert not kernels(plain)
    for seed, level in ((0, 3), (2, 0)):
        with autotvm.apply_history_best(drawn(tasks, seed)):
            library = built(mod, target, level)
        assert len(kernels(library)) == 5
        np.testing.assert_allclose(result(library, x), want, rtol=1e-3, atol=1e-3)
    assert not kernels(built(mod, target, 3))


def test_the_fastest_record_decides() -> None:
    mod = network()
    tasks = [t for t in extracted(mod, "llvm") if t.name.startswith("dense")]
    by_name = {p[0].task.name: p for p in drawn(tasks, 0)}
    for fast in by_name:
        pairs = [(given, MeasureResult((1.0 + (name != fast),), 0, 0, 0)) for name, (given, _) in by_name.items()]
        for given, measured in pairs:
            given.config.cost = measured.costs[0]
        with autotvm.apply_history_best(pairs), tvm.transform.PassContext(opt_level=3), tvm.target.Target("llvm"):
            text = str(relay.transform.ApplyTemplates()(relay.transform.InferType()(mod)))
        assert f'"{fast}' in text.replace("\\", "")


def test_a_template_can_be_forced() -> None:
    mod = network()
    tasks = [t for t in extracted(mod, "llvm") if t.name.startswith("dense")]
    for name in ("dense_pack.x86", "dense_nopack.x86"):
        with autotvm.apply_fixed_config(tasks, name), tvm.transform.PassContext(opt_level=3):
            optimized, _ = relay.optimize(mod, "llvm")
        assert str(optimized).count("autotvm_template") == 1
        assert f'"{name}' in str(optimized).replace("\\", "")


def test_records_with_other_knobs_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """Logs of others have records under the same names."""
    mod = network()
    task = next(t for t in extracted(mod, "llvm") if t.name == "dense_pack.x86")
    (pair,) = drawn([task], 0)
    for change in ({"tile_x": None}, {"tile_x": [-1, 5, 5]}):
        text = json.loads(autotvm.record.encode(*pair))
        entities = [[n, k, change.get(n, v)] for n, k, v in text["config"]["entity"]]
        text["config"]["entity"] = [e for e in entities if e[2] is not None]
        other = autotvm.record.decode(json.dumps(text))
        caplog.clear()
        with autotvm.apply_history_best([other]), tvm.transform.PassContext(opt_level=3):
            optimized, _ = relay.optimize(mod, "llvm")
        assert "autotvm_template" not in str(optimized)
        assert "is not used: its knobs are not those of the template here" in caplog.text


def test_the_virtual_machine_uses_records() -> None:
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weights(6, 8)))))
    value = np.random.default_rng(0).standard_normal((4, 8), dtype="float32")
    with autotvm.apply_history_best(drawn(extracted(mod, "llvm"), 0)):
        run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
        found = run(value).numpy()
    want = np.maximum(value @ np.asarray(weights(6, 8).data.numpy()).T, 0)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_other_operators_stay() -> None:
    """Of other types, of dynamic shapes, and those that are not wanted."""
    x, w = relay.var("x", shape=(2, 8), dtype="int8"), relay.var("w", shape=(4, 8), dtype="int8")
    assert (
        extracted(tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w, out_dtype="int32"))), "llvm") == []
    )
    assert autotvm.task.extract_from_program(network(), {}, "llvm", ops=["nn.dense"])[0].name == "dense_nopack.x86"
    assert len(autotvm.task.extract_from_program(network(), {}, "llvm", ops=["nn.dense"])) == 2


def test_neighbouring_convolutions_share_blocks() -> None:
    """Between convolutions whose records have the same block there is no relayout."""
    x = relay.var("x", shape=(1, 16, 6, 6))
    y = relay.nn.relu(conv(relay.nn.relu(conv(x, 16, 16, 3, 3, padding=(1, 1))), 16, 16, 1, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    tasks = extracted(mod, "llvm")
    assert len(tasks) == 2
    for block_in, count in ((8, 2), (4, 3)):
        pairs = []
        for task, block in zip(tasks, (8, block_in), strict=True):
            space = task.config_space
            index = next(
                i
                for i in range(len(space))
                if space.get(i)["tile_ic"].size[-1] == block and space.get(i)["tile_oc"].size[-1] == 8
            )
            pairs.append((MeasureInput(task.target, task, space.get(index)), MeasureResult((1.0,), 0, 0, 0)))
        with autotvm.apply_history_best(pairs), tvm.transform.PassContext(opt_level=3):
            optimized, _ = relay.optimize(mod, "llvm")
        assert str(optimized).count("layout_transform(") == count
