"""Several devices: annotations, planning, copies, kernels for the target of their device, and contradictions."""

from __future__ import annotations

import cProfile
import json
import pstats
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.models import close
from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger import debug_executor
from tilewright.relay.backend import Executor
from tilewright.relay.functor import rewrite
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import DiagnosticError, TVMError

CPU0, CPU1 = tvm.cpu(0), tvm.cpu(1)
TARGETS = {CPU0: "llvm", CPU1: "llvm -mcpu=haswell"}
CONFIG = tvm.target.make_compilation_config(tvm.transform.PassContext.current(), TARGETS)
on_device, device_copy = relay.annotation.on_device, relay.device_copy
EXECUTORS = [None, Executor("graph")]


def inputs(*names: str) -> list[relay.Var]:
    return [relay.var(n, shape=(2, 8)) for n in names]


def crossing() -> tuple[tvm.IRModule, list[np.ndarray], np.ndarray]:
    """exp(x + y) on the second device, the rest on the first."""
    x, y = inputs("x", "y")
    there = on_device(relay.exp(relay.add(x, y)), CPU1)
    here = relay.tanh(relay.multiply(there, relay.const(0.1)))
    a, b = np.random.default_rng(2).random((2, 2, 8), "float32")
    return tvm.IRModule.from_expr(relay.Function([x, y], here)), [a, b], np.tanh(np.exp(a + b) * np.float32(0.1))


def planned(mod: tvm.IRModule) -> str:
    return str(relay.transform.PlanDevices(CONFIG)(mod)["main"].body)


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_build(executor: Executor | None, tmp_path: Path) -> None:
    mod, args, want = crossing()
    lib = relay.build(mod, TARGETS, executor=executor)
    where = {name: t.mcpu for name, t in lib.plan.kernel_targets.items()}
    assert where["fused_add_exp"] == "haswell" and where["fused_multiply_tanh"] != "haswell"
    assert lib.plan.arena_bytes == [64, 64]
    lib.export_library(tmp_path / "m.so")
    for library in (lib, tvm.runtime.load_module(tmp_path / "m.so")):
        module = graph_executor.GraphModule(library["default"](CPU0, CPU1))
        module.run(x=args[0], y=args[1])
        close(module.get_output(0), want)
        assert module.get_input("x").device == CPU1 and module.get_output(0).device == CPU0
        with pytest.raises(
            ValueError, match=r"was compiled for cpu\(1\) among others, but the executor was created with cpu"
        ):
            library["default"](CPU0)
    graph = json.loads(lib.get_graph_json())
    assert graph["attrs"]["device_id"] == ["list_int", [1, 1, 1, 0, 0]]
    assert [n["attrs"]["func_name"] for n in graph["nodes"][2:]] == ["fused_add_exp", "__copy", "fused_multiply_tanh"]
    assert "haswell" not in lib.kernel_source("fused_multiply_tanh") and lib.kernel_source("fused_add_exp")


def test_debug_executor_tells_devices() -> None:
    mod, args, want = crossing()
    lib = relay.build(mod, TARGETS)
    module = debug_executor.create(lib.get_graph_json(), lib, [CPU0, CPU1])
    report = module.profile(x=args[0], y=args[1])
    assert [c["Device"] for c in report.calls] == ["cpu1", "cpu0", "cpu0"] and set(report.device_metrics) == {
        "cpu0",
        "cpu1",
    }
    close(module.get_output(0), want)
    module.exit()


@pytest.mark.parametrize("kind", ["debug", "graph", "aot", "vm"])
def test_executors(kind: str) -> None:
    mod, args, want = crossing()
    close(relay.create_executor(kind, mod, [CPU0, CPU1], TARGETS).evaluate()(*args), want)


def test_control_flow_in_the_machine() -> None:
    """Branches, a loop that carries a value on the second device, and a closure."""
    x, n = relay.var("x", shape=(2, 8)), relay.var("n", shape=(), dtype="int32")
    loop = relay.GlobalVar("loop")
    v, i = relay.var("v", shape=(2, 8)), relay.var("i", shape=(), dtype="int32")
    more = relay.Call(
        loop, [on_device(relay.add(v, relay.const(1.0)), CPU1), relay.subtract(i, relay.const(1, "int32"))]
    )
    body = relay.If(relay.equal(i, relay.const(0, "int32")), v, more)
    functions = tvm.IRModule({loop: relay.Function([v, i], body, relay.TensorType((2, 8)))})
    functions["main"] = relay.Function([x, n], relay.exp(on_device(relay.Call(loop, [x, n]), CPU1)))
    executable = relay.vm.compile(functions, TARGETS)
    assert "device_copy" in executable.bytecode and "float32[2, 8] on cpu(1)" in executable.bytecode
    values = np.random.default_rng(3).random((2, 8), "float32")
    for program in (executable, tvm.runtime.vm.Executable.load_exec(*executable.save())):
        found = VirtualMachine(program, [CPU0, CPU1]).run(values, np.array(3, "int32"))
        close(found, np.exp(values + 3))
        assert found.device == CPU0
        with pytest.raises(
            ValueError, match=r"was compiled for cpu\(1\) among others, but the executor was created with cpu"
        ):
            VirtualMachine(program, CPU0)


def test_results_of_the_machine_on_their_device() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    body = on_device(relay.exp(x), CPU1, constrain_result=True)
    machine = VirtualMachine(relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], body)), TARGETS), [CPU0, CPU1])
    found = machine.run(np.zeros((3, 8), "float32"))
    close(found, np.ones((3, 8)))
    assert found.device == CPU1


def test_list_of_targets_and_names() -> None:
    mod, args, want = crossing()
    for targets in (["llvm", "llvm -mcpu=haswell"], {"cpu": "llvm", "cpu:1": "llvm -mcpu=haswell"}):
        lib = relay.build(mod, targets)
        module = graph_executor.GraphModule(lib["default"](CPU0, CPU1))
        module.run(x=args[0], y=args[1])
        close(module.get_output(0), want)


# ---- planning


def test_an_accelerator_works_beside_its_host() -> None:
    """Its target alone stands for both; what nothing is said of is the CPU's."""
    context = tvm.transform.PassContext.current()
    config = tvm.target.make_compilation_config(context, tvm.target.Target("ext_dev", host="llvm -mcpu=haswell"))
    assert config.devices == [tvm.cpu(0), tvm.ext_dev(0)] and config.targets[0].mcpu == "haswell"
    x, y = inputs("x", "y")
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))
    lib = relay.build(mod, tvm.target.Target("ext_dev", host="llvm"))
    a = np.ones((2, 8), "float32")
    module = graph_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.ext_dev(0))
    module.run(x=a, y=a)
    np.testing.assert_array_equal(module.get_output(0).numpy(), a + a)


def test_copies_stand_where_devices_change() -> None:
    x, y = inputs("x", "y")
    there = on_device(relay.add(x, y), CPU1)
    assert planned(tvm.IRModule.from_expr(relay.Function([x, y], relay.exp(there)))).count("device_copy") == 1
    same = on_device(relay.exp(on_device(relay.add(x, y), CPU1)), CPU1, constrain_result=True)
    assert "device" not in planned(tvm.IRModule.from_expr(relay.Function([x, y], same)))
    # Only the result is said: what computes it stays where it is.
    result = on_device(relay.add(x, y), CPU1, constrain_result=True, constrain_body=False)
    kept = on_device(relay.exp(result), CPU1, constrain_result=True)
    first = relay.transform.PlanDevices(CONFIG)(tvm.IRModule.from_expr(relay.Function([x, y], kept)))["main"]
    assert [d.virtual_device_id for d in first.attrs["param_virtual_devices"]] == [0, 0]
    assert first.attrs["result_virtual_device"].virtual_device_id == 1 and str(first.body).count("device_copy") == 1


def test_tuples_are_copied_by_field() -> None:
    (x,) = inputs("x")
    pair = on_device(relay.split(x, 2, axis=1).tuple_value, CPU1)
    body = relay.add(relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x], on_device(body, CPU0, constrain_result=True)))
    assert planned(mod).count("device_copy") == 2
    a = np.random.default_rng(4).random((2, 8), "float32")
    close(relay.create_executor("aot", mod, [CPU0, CPU1], TARGETS).evaluate()(a), a[:, :4] + a[:, 4:])


def test_explicit_copies_and_functions() -> None:
    x, y = inputs("x", "y")
    body = relay.add(device_copy(relay.exp(x), CPU0, CPU1), y)
    function = relay.annotation.function_on_device(relay.Function([x, y], body), [CPU0, CPU1], CPU1)
    first = relay.transform.PlanDevices(CONFIG)(tvm.IRModule.from_expr(function))["main"]
    assert [d.virtual_device_id for d in first.attrs["param_virtual_devices"]] == [0, 1]
    a, b = np.random.default_rng(5).random((2, 2, 8), "float32")
    mod = tvm.IRModule.from_expr(function)
    close(relay.create_executor("graph", mod, [CPU0, CPU1], TARGETS).evaluate()(a, b), np.exp(a) + b)
    with pytest.raises(ValueError, match="the function has 2 parameters, but 1 devices were given"):
        relay.annotation.function_on_device(function, [CPU0], CPU1)


def test_one_target_takes_annotations_away() -> None:
    x, y = inputs("x", "y")
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.exp(on_device(relay.add(x, y), CPU0))))
    lib = relay.build(mod, "llvm")
    assert len(lib.plan.calls) == 1 and "param_virtual_devices" not in lib.ir_mod["main"].attrs
    plain = tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))
    alone = tvm.target.make_compilation_config(None, "llvm")
    assert relay.transform.PlanDevices(alone)(plain) is plain


def test_text_of_annotated_programs() -> None:
    mod, _, _ = crossing()
    tvm.ir.assert_structural_equal(relay.parse(mod.astext()), mod)
    first = relay.transform.PlanDevices(CONFIG)(mod)
    tvm.ir.assert_structural_equal(relay.transform.InferType()(relay.parse(first.astext())), first)


def test_gradient_goes_back_over_devices() -> None:
    (x,) = inputs("x")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.sum(relay.exp(on_device(relay.multiply(x, x), CPU1)))))
    mod = relay.transform.InferType()(mod)
    back = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.transform.gradient(mod["main"], mode="first_order"))
    )
    a = np.random.default_rng(6).random((2, 8), "float32")
    found = relay.create_executor("aot", back, [CPU0, CPU1], TARGETS).evaluate()(a)
    np.testing.assert_allclose(found[1][0].numpy(), np.exp(a * a) * 2 * a, rtol=1e-4)


# ---- contradictions


def test_arguments_on_two_devices() -> None:
    x, y = inputs("x", "y")
    here, there = (on_device(relay.exp(v), d, constrain_result=True) for v, d in ((x, CPU0), (y, CPU1)))
    with pytest.raises(DiagnosticError) as caught:
        relay.build(tvm.IRModule.from_expr(relay.Function([x, y], relay.add(here, there))), TARGETS)
    assert str(caught.value) == (
        "add: its arguments and its result must be on one device, but argument 1 (rhs) is on cpu(1) (by on_device(...,"
        " cpu(1))), the others on cpu(0) (by on_device(..., cpu(0)))\n"
        "  in add(%0, %1)\n"
        "  Mark where the value may change devices with relay.annotation.on_device(value, device), or copy it with"
        " relay.device_copy(value, src_device, dst_device)"
    )


def test_place_in_the_text() -> None:
    devices = tvm.IRModule.from_expr(relay.Function([], on_device(on_device(relay.const(1.0), CPU0), CPU1)))
    meta = devices.astext().partition("#[metadata]")[2]
    text = (
        """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 8), float32]) {
  %0 = on_device(%x, virtual_device=meta[VirtualDevice][0], constrain_result=True);
  %1 = on_device(%x, virtual_device=meta[VirtualDevice][1], constrain_result=True);
  (%0, %1)
}
#[metadata]"""
        + meta
    )
    with pytest.raises(DiagnosticError) as caught:
        relay.build(relay.parse(text), TARGETS)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(
        "from_string:4:8: %x must be on one device, but it is on cpu(0) (by on_device(..., cpu(0))) and on"
    )
    assert lines[1] == "    %1 = on_device(%x, virtual_device=meta[VirtualDevice][1], constrain_result=True);"
    assert lines[2].startswith("         ^^^^^^^^^")


def test_parameter_used_on_two_devices() -> None:
    (x,) = inputs("x")
    body = relay.Tuple([on_device(relay.exp(x), CPU0), on_device(relay.tanh(x), CPU1)])
    with pytest.raises(
        DiagnosticError, match=r"the result of tanh must be on one device, but it is on cpu\(0\) \(by on_dev"
    ):
        relay.build(tvm.IRModule.from_expr(relay.Function([x], body)), TARGETS)
    # The remedy: say that x may be copied.
    wanted = on_device(x, CPU0)
    body = relay.Tuple([on_device(relay.exp(wanted), CPU0), on_device(relay.tanh(on_device(x, CPU0)), CPU1)])
    run = relay.create_executor(
        "aot", tvm.IRModule.from_expr(relay.Function([x], body)), [CPU0, CPU1], TARGETS
    ).evaluate()
    a = np.random.default_rng(7).random((2, 8), "float32")
    close(run(a)[1], np.tanh(a))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda x: relay.build(tvm.IRModule.from_expr(on_device(relay.exp(x), tvm.cpu(2))), TARGETS),
            DiagnosticError,
            "on_device(..., cpu(2)) names cpu(2), but the program is compiled for cpu(0), cpu(1) only. Give a target for it too:"
            " target={tvm.cpu(0): ..., tvm.cpu(2): ...}",
        ),
        (lambda x: on_device(x, 3.5), ValueError, "expecting a Device or device name, but received a float"),
        (
            lambda x: relay.build(tvm.IRModule.from_expr(relay.exp(x)), {CPU0: "llvm", "cpu:0": "llvm"}),
            TVMError,
            "the device cpu(0) was given two targets; each has one",
        ),
        (
            lambda x: relay.build(tvm.IRModule.from_expr(relay.exp(x)), ["llvm", "vulkan"]),
            TVMError,
            "relay.build: there is no code generator for target kind 'vulkan'; there are ones for ",
        ),
        (
            lambda x: relay.build(
                tvm.IRModule.from_expr(relay.exp(x)), ["llvm", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"]
            ),
            TVMError,
            "relay.build: all targets must be of one architecture, which one library holds, but they are",
        ),
    ],
)
def test_wrong_devices(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make(inputs("x")[0])
    assert str(caught.value).startswith(text)


def test_virtual_devices() -> None:
    v = tvm.target.VirtualDevice(CPU1, tvm.target.Target("llvm"), "global")
    assert (v.device_type(), v.virtual_device_id, v.memory_scope, v.device) == (1, 1, "global", CPU1)
    assert tvm.ir.load_json(tvm.ir.save_json(v)) == v != tvm.target.VirtualDevice(CPU1)
    assert not tvm.target.VirtualDevice().is_constrained
    with pytest.raises(TVMError, match="this virtual device does not name a device"):
        _ = tvm.target.VirtualDevice().device
    assert CONFIG.optional_homogeneous_target is None and CONFIG.default_primitive_virtual_device.device == CPU0


# ---- random programs


def scattered(mod: tvm.IRModule, rng: random.Random) -> tvm.IRModule:
    """The module with the results of some calls put on one of the devices."""

    def change(old: Any, new: Any) -> Any:
        if isinstance(new, relay.Call) and rng.random() < 0.3:
            return on_device(new, rng.choice((CPU0, CPU1)))
        return None

    return tvm.IRModule.from_expr(rewrite(mod["main"], change))


def test_random_annotations() -> None:
    """What is planned computes the same; what contradicts itself is refused."""
    agreed = 0
    for seed in range(40):
        g = Generator(900 + seed, 8)
        mod, args = g.module(), g.inputs()
        spread = scattered(mod, random.Random(seed))
        try:
            planned(spread)
        except DiagnosticError as error:
            assert "must be on one device" in str(error)
            continue
        agreed += 1
        if agreed > 12:
            continue
        want = evaluate(mod, args)
        for kind in ("graph", "aot", "vm"):
            found = relay.create_executor(kind, spread, [CPU0, CPU1], TARGETS).evaluate()(*args)
            single = not isinstance(found, (list, tvm.runtime.container.ADT))
            assert_same([f.numpy() for f in ([found] if single else list(found))], want)
    assert agreed >= 10


def test_planning_takes_linear_time() -> None:
    def calls(steps: int) -> int:
        value: Any = relay.var("x", shape=(2,))
        x = value
        for i in range(steps):
            value = on_device(relay.add(value, relay.const(1.0)), (CPU0, CPU1)[i % 2])
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], value)))
        profile = cProfile.Profile()
        profile.runcall(relay.transform.PlanDevices(CONFIG), mod)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    calls(100)
    assert calls(4000) < 10 * calls(500)
