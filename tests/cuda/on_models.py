"""Models on a device of CUDA: executors, and runs that are captured into a graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command, dense_model
from tests.cuda import Fake
from tests.cuda.back_end import fake_target
from tilewright import nd, relay
from tilewright.contrib import graph_executor
from tilewright.contrib.cuda_graph import cuda_graph_executor
from tilewright.runtime import load_module

DEV, OTHER = tvm.cuda(0), tvm.cuda(1)
FAKE = Fake()
WEIGHT = np.random.default_rng(3).random((4, 8), "float32")


@pytest.fixture(name="fake", autouse=True)
def _fake() -> Iterator[Fake]:
    FAKE.calls()
    with fake_target():
        yield FAKE


def model() -> tvm.IRModule:
    x = relay.var("x", shape=(2, 8))
    return tvm.IRModule.from_expr(relay.nn.softmax(relay.nn.dense(relay.nn.relu(x), relay.const(WEIGHT))))


def wanted(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(np.maximum(data, 0) @ WEIGHT.T)
    found: np.ndarray[Any, Any] = e / e.sum(1, keepdims=True)
    return found


DATA = np.random.default_rng(4).random((2, 8), "float32")


@pytest.mark.parametrize("kind", ["graph", "aot", "vm"])
def test_executors(fake: Fake, kind: str) -> None:
    for device in (DEV, OTHER):
        run = relay.create_executor(kind, model(), device, "fake_cuda").evaluate()
        np.testing.assert_allclose(nd.array(run(DATA)).numpy(), wanted(DATA), rtol=1e-5)
        np.testing.assert_allclose(nd.array(run(nd.array(DATA, device))).numpy(), wanted(DATA), rtol=1e-5)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_captured_runs(fake: Fake, executor: str, tmp_path: Path) -> None:
    relay.build(model(), "fake_cuda", executor=relay.backend.Executor(executor)).export_library(str(tmp_path / "m.so"))
    library = load_module(str(tmp_path / "m.so"))
    module = cuda_graph_executor.GraphModuleCudaGraph(library["cuda_graph_create"](DEV))
    module.run(x=DATA)
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA), rtol=1e-5)
    fake.calls()
    for k in (1, 2):
        module.run(x=DATA * k)
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA * k), rtol=1e-5)
    calls = fake.calls("cuGraphLaunch", "cuLaunchKernel", "cuStreamBeginCapture_v2")
    assert calls == ["cuGraphLaunch"] * 2, "kernels are launched by the graph"
    mine = nd.array(DATA * 3, DEV)
    module.set_input_zero_copy("x", mine)
    module.run()
    assert "cuStreamBeginCapture_v2" in fake.calls(), "its addresses are others"
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA * 3), rtol=1e-5)
    with pytest.raises(NotImplementedError, match="a captured run keeps no inner tensors; use contrib.debugger"):
        module.debug_get_output(0)
    streams = fake.live("streams")
    del module
    assert "cuGraphExecDestroy" in fake.calls() and fake.live("streams") == streams


def test_classic_graphs(fake: Fake) -> None:
    built = relay.build(model(), "fake_cuda", executor=relay.backend.Executor("graph"))
    module = cuda_graph_executor.create(built.get_graph_json(), built.get_lib(), DEV)
    module.set_input(**built.get_params())
    with pytest.raises(ValueError, match="no run of this model was captured: call capture_cuda_graph, or run"):
        module.run_cuda_graph()
    module.capture_cuda_graph()
    module.set_input("x", DATA)
    module.run_cuda_graph()
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA), rtol=1e-5)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_a_run_is_launches_alone(fake: Fake, executor: str) -> None:
    """Neither does the CPU wait, nor is memory taken, nor anything copied: a run is given to the stream, and goes on by itself."""
    built = relay.build(model(), "fake_cuda", executor=relay.backend.Executor(executor))
    module = graph_executor.GraphModule(built["default"](DEV))
    module.set_input("x", nd.array(DATA, DEV))
    module.run()  # loads the code
    fake.calls()
    for _ in range(3):
        module.run()
    calls = [call.split()[0] for call in fake.calls()]
    kernels = calls.count("cuLaunchKernel")
    assert set(calls) <= {"cuLaunchKernel", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetCurrent"}, calls
    assert kernels % 3 == 0 and kernels > 0
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA), rtol=1e-5)


def test_a_run_of_the_machine_waits_for_nothing(fake: Fake) -> None:
    """The virtual machine takes memory as it goes, from what earlier runs gave back."""
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(model(), "fake_cuda"), DEV)
    x = nd.array(DATA, DEV)
    kept = [machine.invoke("main", x) for _ in range(3)]
    kept.pop()
    fake.calls()
    result = machine.invoke("main", x)
    waits = (
        "cuStreamSynchronize",
        "cuCtxSynchronize",
        "cuEventSynchronize",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",
    )
    assert not fake.calls(*waits)
    np.testing.assert_allclose(result.numpy(), wanted(DATA), rtol=1e-5)


def mixed_model() -> tvm.IRModule:
    """exp on the device, tanh on the CPU, and the rest on the device."""
    x = relay.var("x", shape=(2, 8))
    there = relay.annotation.on_device(relay.exp(x), DEV)
    here = relay.annotation.on_device(relay.tanh(there), tvm.cpu(0))
    body = relay.annotation.on_device(relay.negative(here), DEV, constrain_result=True)
    return tvm.IRModule.from_expr(relay.Function([x], body))


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_copies_of_a_mixed_program_are_planned(fake: Fake, executor: str) -> None:
    """One copy to each side, and the CPU waits once, for what it reads."""
    choice = relay.backend.Executor(executor)
    built = relay.build(mixed_model(), {tvm.cpu(0): "llvm", DEV: "fake_cuda"}, executor=choice)
    module = graph_executor.GraphModule(built["default"](tvm.cpu(0), DEV))
    module.set_input("x", DATA)
    module.run()
    fake.calls()
    module.run()
    copies = ("cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2")
    calls = [c.split()[0] for c in fake.calls("cuLaunchKernel", *copies, "cuStreamSynchronize", "cuCtxSynchronize")]
    assert calls.count("cuLaunchKernel") == 2 and [c for c in calls if c in copies] == list(copies), calls
    waits = calls.count("cuStreamSynchronize") + calls.count("cuCtxSynchronize")
    assert waits <= 2 and calls.index("cuMemcpyDtoHAsync_v2") < len(calls) - 1
    np.testing.assert_allclose(module.get_output(0).numpy(), -np.tanh(np.exp(DATA)), rtol=1e-5)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_memory_that_a_model_does_not_get(fake: Fake, executor: str) -> None:
    """The device has 64 MiB. What it is for, how much the model takes in all, and what is largest."""
    x = relay.var("x", shape=(1 << 20, 5))
    body = relay.nn.softmax(relay.nn.dense(x, relay.const(np.ones((16, 5), "float32"))))
    built = relay.build(relay.Function([x], relay.sum(body)), "fake_cuda", executor=relay.backend.Executor(executor))
    with pytest.raises(MemoryError) as caught:
        built["default"](DEV)
    assert str(caught.value) == (
        "the intermediate values of the model take 134217728 bytes: cuda(0) has no memory for a tensor of shape (134217728,) and dtype"
        " uint8, which needs 134217728 bytes (128.0 MiB): 67108864 bytes (64.0 MiB) of 67108864 bytes (64.0 MiB) are free. Free arrays"
        " there, or use a smaller batch. The largest are those of `fused_nn_dense` (67108864 bytes), `fused_nn_softmax` (67108864 bytes)"
    )


def test_inputs_of_another_device(fake: Fake) -> None:
    built = relay.build(model(), "fake_cuda", executor=relay.backend.Executor("aot"))
    module = graph_executor.GraphModule(built["default"](DEV))
    module.set_input("x", nd.array(DATA, OTHER))
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted(DATA), rtol=1e-5)
    with pytest.raises(ValueError, match=r"cuda\(1\).*cuda\(0\)|cuda\(0\).*cuda\(1\)"):
        module.set_input_zero_copy("x", nd.array(DATA, OTHER))


def test_runs_that_cannot_be_captured(fake: Fake) -> None:
    devices = [tvm.cpu(0), DEV]
    choice = relay.backend.Executor("graph")
    built = relay.build(mixed_model(), {tvm.cpu(0): "llvm", DEV: "fake_cuda"}, executor=choice)
    plain = graph_executor.GraphModule(built["default"](*devices))
    plain.run(x=DATA)
    np.testing.assert_allclose(plain.get_output(0).numpy(), -np.tanh(np.exp(DATA)), rtol=1e-5)
    module = cuda_graph_executor.GraphModuleCudaGraph(built["default"](*devices))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        module.run(x=DATA)
    np.testing.assert_allclose(plain.get_output(0).numpy(), -np.tanh(np.exp(DATA)), rtol=1e-5)
    with pytest.raises(
        ValueError, match=r"a CUDA graph runs on devices of CUDA, but the outputs of this model are on cpu\(0\)"
    ):
        cpu = relay.build(model(), "llvm")
        cuda_graph_executor.GraphModuleCudaGraph(cpu["default"](tvm.cpu(0)))


@pytest.mark.parametrize("rows", [4, "rows"])
def test_commands_run_models_where_they_are_compiled_for(fake: Fake, rows: int | str, tmp_path: Path) -> None:
    """And wait for the device: a kernel's time is not that of its launch."""
    path = dense_model(tmp_path / "m.onnx", rows)
    np.savez(tmp_path / "x.npz", x=np.ones((4, 32), "float32"))
    options = (path, "--target", "fake_cuda", "--input", tmp_path / "x.npz", "--quiet")
    done = command("run", *options, "--output", tmp_path / "y.npz")
    assert done.code == 0, done.err
    assert command("run", path, "--input", tmp_path / "x.npz", "--quiet", "--output", tmp_path / "z.npz").code == 0
    found, same = (np.load(tmp_path / name)["y"] for name in ("y.npz", "z.npz"))
    np.testing.assert_allclose(found, same, rtol=1e-5)
    fake.calls()
    done = command("profile", *options, "--duration", "0.1", "--json")
    facts = json.loads(done.out)
    assert done.code == 0 and facts["kernels"] and not facts["peaks_gflops"]
    calls = [line.split()[0] for line in fake.calls()]
    assert calls.count("cuCtxSynchronize") >= calls.count("cuLaunchKernel") > 0
    assert command("bench", *options, "--iterations", "2", "--warmup", "0", "--no-peer").code == 0
