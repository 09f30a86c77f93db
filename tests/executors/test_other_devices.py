"""Models on a device whose memory the CPU cannot touch, and on both: executors, copies where the plan says, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.models import close
from tests.runtime.simulated_back_end import simulated_target
from tests.runtime.simulator import Simulator, simulator
from tilewright import nd, relay
from tilewright.contrib import graph_executor
from tilewright.relay.backend import Executor
from tilewright.runtime.vm import VirtualMachine

CPU, DEV = tvm.cpu(0), tvm.vpi(0)
TARGETS = {CPU: "llvm", DEV: "simulated"}
KINDS = ["graph", "aot", "vm"]
on_device = relay.annotation.on_device


@pytest.fixture(name="sim", autouse=True)
def _sim() -> Iterator[Simulator]:
    """The simulator; what a test leaves allocated is a leak."""
    sim = simulator()
    assert sim.is_free()
    sim.calls.clear()
    sim.launches.clear()
    with simulated_target():
        yield sim
    assert sim.is_free(), "memory of the device was not freed"
    assert not sim.code, "code of the device was not freed"


def crossing() -> tuple[tvm.IRModule, list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """A product on the device, tanh on the CPU, a sum on the device; one constant is read on both."""
    rng = np.random.default_rng(2)
    w, b, data = (rng.random(s, "float32") for s in ((4, 8), (4,), (2, 8)))
    x, shared = relay.var("x", shape=(2, 8)), relay.const(b)
    there = on_device(relay.exp(relay.add(relay.nn.dense(x, relay.const(w)), shared)), DEV)
    here = on_device(relay.tanh(relay.multiply(relay.add(there, shared), relay.const(0.1))), CPU)
    body = on_device(relay.add(here, shared), DEV, constrain_result=True)
    want = np.tanh((np.exp(data @ w.T + b) + b) * np.float32(0.1)) + b
    return tvm.IRModule.from_expr(relay.Function([x], body)), [data], want


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_on_two_devices(sim: Simulator, kind: str) -> None:
    mod, args, want = crossing()
    run = relay.create_executor(kind, mod, [CPU, DEV], TARGETS).evaluate()
    sim.calls.clear()
    for _ in range(2):
        close(nd.array(run(*args)), want)
    assert sim.calls.count("launch") == 4 and len({name for name, _, _ in sim.launches}) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_on_the_device_alone(sim: Simulator, kind: str) -> None:
    x = relay.var("x", shape=(2, 8))
    w = np.random.default_rng(3).random((4, 8), "float32")
    body = relay.nn.softmax(relay.nn.dense(relay.nn.relu(x), relay.const(w)))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    data = np.random.default_rng(4).random((2, 8), "float32")
    want = np.exp(data @ w.T) / np.exp(data @ w.T).sum(1, keepdims=True)
    for device in (DEV, tvm.vpi(1)):
        run = relay.create_executor(kind, mod, device, "simulated").evaluate()
        close(nd.array(run(data)), want)
        close(nd.array(run(nd.array(data, device))), want)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_exported_libraries(sim: Simulator, executor: str, tmp_path: Path) -> None:
    mod, args, want = crossing()
    library = relay.build(mod, TARGETS, executor=Executor(executor))
    library.export_library(tmp_path / "m.so")
    for loaded in (library, tvm.runtime.load_module(str(tmp_path / "m.so"))):
        module = graph_executor.GraphModule(loaded["default"](CPU, DEV))
        assert module.get_input("x").device == DEV
        module.run(x=args[0])
        assert module.get_output(0).device == DEV
        close(module.get_output(0).copyto(CPU), want)
        close(module.get_output(0, nd.empty((2, 4))), want)
        module.set_input("x", nd.array(args[0] * 0, DEV))
        module.run()
        assert not np.allclose(module.get_output(0).numpy(), want)
        given = nd.array(args[0], DEV)
        module.set_input_zero_copy("x", given)
        module.run()
        close(module.get_output(0).copyto(CPU), want)
        with pytest.raises(
            ValueError, match=r"input `x` lies on vpi\(0\): memory of cpu\(0\) cannot stand for it; copy it first"
        ):
            module.set_input_zero_copy("x", nd.array(args[0]))
    facts = json.loads(library.lib["get_metadata"]())
    assert facts["devices"] == [[1, 0], [9, 0]] and len(facts["arenas"]) == 2


def test_kernels_one_by_one(sim: Simulator) -> None:
    mod, args, want = crossing()
    module = relay.build(mod, TARGETS, executor=Executor("aot"))["default"](CPU, DEV)
    module["set_input"]("x", nd.array(args[0]))
    for i in range(module["get_num_kernels"]()):
        module["run_kernel"](i)
    close(module["get_output"](0).copyto(CPU), want)


def test_control_flow_and_dynamic_sizes(sim: Simulator) -> None:
    """A loop on the device whose condition the machine reads from there; sizes that are known at run time."""
    text = """
    def @loop(%v: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (less(max(%v), 100f)) { @loop(multiply(%v, 2f)) } else { %v }
    }
    def @main(%x: Tensor[(?, 4), float32]) { @loop(exp(%x)) }
    """
    machine = VirtualMachine(relay.vm.compile(relay.parse(text.strip()), "simulated"), DEV)
    for rows in (1, 3, 3):
        found = machine.run(np.zeros((rows, 4), "float32"))
        assert found.device == DEV
        close(nd.array(found), np.full((rows, 4), 128))


def test_machines_use_memory_again(sim: Simulator) -> None:
    mod, args, want = crossing()
    machine = VirtualMachine(relay.vm.compile(mod, TARGETS), [CPU, DEV])
    machine.run(*args)
    sim.calls.clear()
    for _ in range(3):
        close(nd.array(machine.run(*args)), want)
    assert "allocate" not in sim.calls
    machine.module["trim"]()


def test_the_clock_of_the_device(sim: Simulator) -> None:
    mod, args, _ = crossing()
    module = relay.build(mod, TARGETS)["default"](CPU, DEV)
    module["set_input"]("x", nd.array(args[0]))
    result = module.time_evaluator("run", DEV, number=3, repeat=2)()
    assert result.results == (2.0, 2.0), "two kernels of one block each"
    assert module.time_evaluator("run", CPU, number=3)().mean < 1.9


def test_too_little_memory(sim: Simulator) -> None:
    mod, _, _ = crossing()
    library = relay.build(mod, TARGETS)
    sim.room = 5000
    try:
        with pytest.raises(MemoryError, match=r"vpi\(0\) has no \d+ bytes"):
            library["default"](CPU, DEV)
    finally:
        sim.room = 1 << 40


def test_wrong_devices(sim: Simulator) -> None:
    mod, _, _ = crossing()
    library = relay.build(mod, TARGETS)
    machine = relay.vm.compile(mod, TARGETS)
    for make in (library["default"], lambda *d: VirtualMachine(machine, list(d))):
        with pytest.raises(
            ValueError, match=r"was compiled for vpi\(0\) among others, but the executor was created with cpu\(0\) only"
        ):
            make(CPU)
    x = relay.var("x", shape=(2,))
    alone = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    for executor in ("graph", "aot"):
        library = relay.build(alone, "simulated", executor=Executor(executor))
        with pytest.raises(ValueError, match=r"was compiled for vpi devices; create it with vpi\(0\), not cpu\(0\)"):
            library["default"](CPU)
        with pytest.raises(ValueError, match=r"there is no device vpi\(7\)"):
            library["default"](tvm.vpi(7))
    there = relay.vm.compile(alone, "simulated")
    with pytest.raises(ValueError, match=r"was compiled for vpi devices; create it with vpi\(0\), not cuda\(0\)"):
        VirtualMachine(there, tvm.cuda(0))
