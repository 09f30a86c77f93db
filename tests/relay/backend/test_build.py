"""relay.build end to end: ONNX models to native code, run in process and from exported libraries, beside the references."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay, runtime
from tilewright.contrib import cc, graph_executor
from tilewright.ir import IRModule
from tilewright.relay.backend import Executor, Runtime
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.relay.frontend import from_onnx
from tilewright.support.errors import TVMError


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def weight(name: str, *shape: int) -> onnx.TensorProto:
    rng = np.random.default_rng(sum(map(ord, name)))
    return numpy_helper.from_array((0.3 * rng.standard_normal(shape)).astype("float32"), name)


def model(
    nodes: list[onnx.NodeProto], shape: list[int], out: list[int], weights: list[onnx.TensorProto]
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


def cnn() -> onnx.ModelProto:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], name="conv0", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c0", "b0", "b0", "b0", "v0"], ["n0"], name="norm0"),
        node("Relu", ["n0"], ["r0"], name="relu0"),
        node("MaxPool", ["r0"], ["p0"], name="pool0", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p0", "w1"], ["c1"], name="conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Conv", ["c1", "wd"], ["d1"], name="depthwise", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=32),
        node("Add", ["d1", "p0"], ["a1"], name="add1"),
        node("GlobalAveragePool", ["a1"], ["g"], name="pool1"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w2", "b2"], ["o"], name="fc", transB=1),
        node("Softmax", ["o"], ["y"], name="softmax", axis=1),
    ]
    variance = numpy_helper.from_array(np.full(32, 1.5, "float32"), "v0")
    weights = [weight("w0", 32, 3, 3, 3), weight("b0", 32), weight("w1", 32, 32, 3, 3), weight("wd", 32, 1, 3, 3)]
    return model(nodes, [1, 3, 16, 16], [1, 10], [*weights, weight("w2", 10, 32), weight("b2", 10), variance])


def mlp() -> onnx.ModelProto:
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w0"], ["m0"], name="fc0"),
        node("Add", ["m0", "b0"], ["a0"], name="bias0"),
        node("Tanh", ["a0"], ["t0"], name="tanh0"),
        node("MatMul", ["t0", "w1"], ["m1"], name="fc1"),
        node("LayerNormalization", ["m1", "g", "b"], ["y"], name="norm"),
    ]
    return model(
        nodes,
        [5, 20],
        [5, 48],
        [weight("w0", 20, 64), weight("b0", 64), weight("w1", 64, 48), weight("g", 48), weight("b", 48)],
    )


def run(library: ExecutorFactoryModule | runtime.Module, x: np.ndarray) -> np.ndarray:
    executor = library["default"](runtime.cpu(0))
    executor["set_input"]("x", runtime.array(x))
    executor["run"]()
    result: np.ndarray = executor["get_output"](0).numpy()
    return result


def sample(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(("make", "shape"), [(cnn, (1, 3, 16, 16)), (mlp, (5, 20))])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=nehalem"])
def test_onnx_model(make: object, shape: tuple[int, ...], target: str) -> None:
    mod, params = from_onnx(make())  # type: ignore[operator]
    x = sample(shape)
    want = relay.create_executor("debug", mod, params=params).evaluate()(x)
    got = run(relay.build(mod, target, params=params), x) if target == "llvm" else run_for(mod, params, target, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def run_for(mod: IRModule, params: object, target: str, x: np.ndarray) -> np.ndarray:
    """As `run`, from a library on disk: code for an older CPU of this architecture runs here too."""
    library = relay.build(mod, target, params=params)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.so"
        library.export_library(path)
        return run(runtime.load_module(path), x)


@pytest.mark.parametrize("seed", range(300, 308))
def test_random_models(seed: int) -> None:
    g = Generator(seed, 14)
    mod, inputs = g.module(), g.inputs()
    executor = relay.build(mod, "llvm")["default"](runtime.cpu(0))
    for name, value in zip(("x", "y"), inputs, strict=True):
        executor["set_input"](name, runtime.array(value))
    executor["run"]()
    executor["run"]()
    want = evaluate(mod, inputs)
    assert_same([executor["get_output"](i).numpy() for i in range(len(want))], want)


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_exported_library_runs_in_another_process(tmp_path: Path, suffix: str) -> None:
    mod, params = from_onnx(cnn())
    library = relay.build(mod, "llvm", params=params)
    x = sample((1, 3, 16, 16))
    path, data = tmp_path / f"model{suffix}", tmp_path / "x.npy"
    assert library.export_library(path) == str(path)
    np.save(data, x)
    program = (
        "import sys, numpy as np; from tilewright import runtime\n"
        "assert 'tilewright.relay' not in sys.modules\n"
        f"e = runtime.load_module({str(path)!r})['default'](runtime.cpu(0))\n"
        f"e['set_input']('x', runtime.array(np.load({str(data)!r}))); e['run']()\n"
        f"np.save({str(data)!r}, e['get_output'](0).numpy())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    np.testing.assert_array_equal(np.load(data), run(library, x))


def test_metadata() -> None:
    mod, params = from_onnx(cnn())
    library = relay.build(mod, "llvm", params=params)
    facts = json.loads(json.dumps(library.metadata))
    assert facts["inputs"] == [{"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32"}]
    assert facts["outputs"] == [{"name": "y", "shape": [1, 10], "dtype": "float32"}]
    conv = next(k for k in facts["kernels"] if k["name"].startswith("fused_nn_contrib_conv2d_NCHWc"))
    assert "conv0" in conv["source"]
    assert conv["flops"] >= 2 * 27 * 32 * 16 * 16
    assert facts["constants_bytes"] % 64 == facts["workspace_bytes"] % 64 == 0


def test_second_build_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    mod, params = from_onnx(mlp())
    relay.build(mod, "llvm", params=params)
    from tilewright.relay.backend.kernels import machine_code

    def never(*args: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(machine_code, "kernel_code", never)
    seen: list[tuple[int, int, str]] = []
    library = relay.build(mod, "llvm", params=params, progress=lambda *a: seen.append(a))
    assert seen[-1][0] == seen[-1][1] == len({c.kernel.name for c in library.plan.calls})
    x = sample((5, 20))
    np.testing.assert_allclose(
        run(library, x), relay.create_executor("debug", mod, params=params).evaluate()(x), rtol=1e-4, atol=1e-5
    )


def test_scalars_in_loops_are_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of explicit vectors are compiled as they are; where rows are too short for vectors, LLVM joins several."""
    from tilewright.relay.backend.kernels import machine_code

    levels: list[int] = []
    compile_code = machine_code.compile_code

    def compiled(code: Any, target: Any) -> bytes:
        levels.append(code.effort)
        return compile_code(code, target)

    monkeypatch.setattr(machine_code, "compile_code", compiled)
    relay.build(IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(9, 64)))), "llvm")
    assert set(levels) == {1}
    narrow = relay.var("x", shape=(8, 1763, 3))
    relay.build(IRModule.from_expr(relay.nn.pad(narrow, ((0, 0), (0, 3), (0, 0)), 0, "edge")), "llvm")
    assert 3 in levels


def test_damaged_cache_entry_is_compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))  # of its own: no other test finds the damage
    from tilewright.support.cache import default_cache

    mod, params = from_onnx(mlp())
    relay.build(mod, "llvm", params=params)
    for entry in default_cache().entries():
        entry.path.write_bytes(entry.path.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
        library = relay.build(mod, "llvm", params=params)
    assert run(library, sample((5, 20))).shape == (5, 48)


def test_weights_may_be_given_as_params() -> None:
    x, w = relay.var("x", shape=(2, 16)), relay.var("w", shape=(32, 16))
    f = relay.Function([x, w], relay.nn.dense(x, w))
    value = sample((32, 16))
    library = relay.build(f, "llvm", params={"w": runtime.array(value)})
    data = sample((2, 16))
    np.testing.assert_allclose(run(library, data), data @ value.T, rtol=1e-5, atol=1e-5)


def test_model_without_kernels() -> None:
    x = relay.var("x", shape=(3,))
    np.testing.assert_array_equal(run(relay.build(relay.Function([x], x), "llvm"), sample((3,))), sample((3,)))


def test_graph_executor_of_create_executor() -> None:
    x = relay.var("x", shape=(3,))
    mod = IRModule.from_expr(relay.exp(x))
    got = relay.create_executor("graph", mod).evaluate()(sample((3,)))
    np.testing.assert_allclose(got.numpy(), np.exp(sample((3,))), rtol=1e-6)


def test_foreign_target_does_not_run_here(tmp_path: Path) -> None:
    x = relay.var("x", shape=(3,))
    mod, target = relay.Function([x], relay.exp(x)), "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72"
    library = relay.build(mod, target)
    with pytest.raises(TVMError, match="which is not this machine, so it cannot run here"):
        library["default"](runtime.cpu())
    library.export_library(tmp_path / "a.tar")
    _, kernels, _ = library
    for module in (library.lib, library.get_lib(), kernels):
        module.export_library(tmp_path / "b.tar")
        assert (tmp_path / "b.tar").stat().st_size > 1000
        with pytest.raises(AttributeError, match="cannot be called here: it was compiled for aarch64"):
            module["default"]


def test_one_object_of_a_model(tmp_path: Path) -> None:
    """`save` writes one object, from which a compiler links the whole model."""
    x = relay.var("x", shape=(3,))
    library = relay.build(
        relay.Function([x], relay.exp(x) + relay.const(np.float32([1, 2, 3]))), "llvm", executor="aot"
    )
    library.lib.save(tmp_path / "model.o")
    cc.create_shared(str(tmp_path / "model.so"), str(tmp_path / "model.o"))
    loaded = runtime.load_module(tmp_path / "model.so")
    np.testing.assert_allclose(run(loaded, sample((3,))), np.exp(sample((3,))) + [1, 2, 3], rtol=1e-6)


def test_parameters_of_other_shapes() -> None:
    """bind_params_by_name takes what it is given; relay.build refuses it."""
    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(8, 4))
    f = relay.Function([x, w], relay.nn.dense(x, w))
    given = {"w": sample((3, 4)), "not there": sample((1,))}
    bound = relay.build_module.bind_params_by_name(f, given)
    assert relay.testing.run_infer_type(bound).checked_type.ret_type == relay.TensorType((1, 3))
    with pytest.raises(TypeError, match="w is declared .* but is bound to an array of shape"):
        relay.build(f, "llvm", params=given)


def test_names_of_runtimes_and_executors() -> None:
    assert str(Runtime("crt", {"system-lib": True})) == "crt" and f"{Executor('graph')}" == "graph"
    assert repr(Runtime("cpp")) == "Runtime('cpp')"


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="relay.build takes an IRModule or a relay.Function, but was given int"):
        relay.build(3, "llvm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown executor 'vm2': the executors are debug, graph, aot and vm"):
        relay.create_executor("vm2")


def test_sources_of_kernels(tmp_path: Path) -> None:
    """The kernels of a model as TIR, LLVM IR and assembly, and the last two as files."""
    mod, params = from_onnx(mlp())
    library = relay.build(mod, target="llvm", params=params)
    assert "define" in library.get_source("ll") and "@T.prim_func" in library.get_source("tir")
    assert ".text" in library.lib.get_source("s")
    for suffix in (".ll", ".s"):
        path = tmp_path / f"model{suffix}"
        library.export_library(path)
        assert path.read_text() == library.get_source(suffix[1:])
    with pytest.raises(
        ValueError, match="a kernel has no source of the kind 'c'; there are te, tir, lowered, ll, s, asm"
    ):
        library.get_source("c")


@pytest.mark.parametrize("shape", [(16, 8), (2, 16, 8)], ids=str)
def test_product_of_a_matrix_and_itself(shape: tuple[int, ...]) -> None:
    """Its rows are read as they are, and packed as columns."""
    x = relay.var("x", shape=shape)
    product = relay.nn.dense(x, x) if len(shape) == 2 else relay.nn.batch_matmul(x, x)
    given = np.random.default_rng(0).standard_normal(shape).astype("float32")
    run = relay.create_executor("graph", IRModule.from_expr(relay.Function([x], product)), target="llvm").evaluate()
    np.testing.assert_allclose(run(given).numpy(), given @ given.swapaxes(-1, -2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extents", [(8, 2, 6), (7, 3, 6), (24, 2, 20)], ids=str)
@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 1, 0), (1, 0, 2)], ids=str)
def test_transposed_parts_of_an_axis(extents: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """A tile that is longer than a part must not go on into the next part."""
    c, a, b = extents
    x = relay.var("x", shape=(c, a * b))
    made = relay.exp(relay.transpose(relay.reshape(x, (c, a, b)), axes))
    given = np.random.default_rng(0).random((c, a * b)).astype("float32")
    run = relay.create_executor("graph", IRModule.from_expr(relay.Function([x], made)), target="llvm").evaluate()
    np.testing.assert_allclose(run(given).numpy(), np.exp(given.reshape(c, a, b).transpose(axes)), rtol=1e-5)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_a_program_without_results(executor: str) -> None:
    nothing = IRModule.from_expr(relay.Function([], relay.Tuple([])))
    library = relay.build(nothing, "llvm", executor=Executor(executor))
    module = graph_executor.GraphModule(library["default"](runtime.cpu(0)))
    module.run()
    assert module.get_num_outputs() == 0


@pytest.mark.parametrize("rows", [1, 7])
def test_dense_layers_for_webassembly_without_vectors(rows: int, tmp_path: Path) -> None:
    """A target whose registers hold no vectors has plans, too."""
    x, w = relay.var("x", shape=(rows, 24)), relay.var("w", shape=(10, 24))
    f = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    for params in (None, {"w": sample((10, 24))}):
        library = relay.build(f, "llvm -mtriple=wasm32-unknown-unknown-wasm", params=params)
        library.export_library(tmp_path / "a.tar")
        assert library.get_source("ll").count("<4 x float>") == 0
