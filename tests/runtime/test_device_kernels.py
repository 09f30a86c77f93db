"""Modules of device code, and tensor programs for a device: launches, their errors, the device's clock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.runtime.simulated_back_end import simulated_target
from tests.runtime.simulator import Simulator, simulator
from tests.runtime.stray_program import LINE, stray
from tilewright import nd, te
from tilewright.runtime import load_module
from tilewright.runtime.device_module import LaunchedKernel, device_module
from tilewright.script import tir as T

DEV, OTHER = tvm.vpi(0), tvm.vpi(1)
SOURCE = """
def scale(at, x, y, factor, n):
    i = at[0] * 4 + at[3]
    if i < n:
        y[i] = x[i] * factor
"""
SCALE = LaunchedKernel(
    "scale", ("handle", "handle", "float32", "int32"), ("blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory")
)


@pytest.fixture(name="sim", autouse=True)
def _sim() -> Iterator[Simulator]:
    """The simulator; what a test leaves is a leak."""
    sim = simulator()
    assert sim.is_free()
    sim.calls.clear()
    sim.launches.clear()
    yield sim
    assert sim.is_free() and not sim.code and not sim.refuse


def scaling() -> tvm.runtime.Module:
    return device_module("vpi", "python", [SOURCE.encode()], [SCALE], {"py": lambda: SOURCE})


def test_launches(sim: Simulator) -> None:
    module = scaling()
    assert module.type_key == "vpi" and module.get_source() == SOURCE and module.is_device_module
    x = np.arange(10, dtype="float32")
    for device in (DEV, OTHER):
        there, out = nd.array(x, device), nd.array(np.zeros(10, "float32"), device)
        module["scale"](there, out, 2.5, 10, 3, 4, 64)
        np.testing.assert_array_equal(out.numpy(), x * 2.5)
    assert sim.launches == [("scale", (3, 1, 1, 4, 1, 1), 64)] * 2
    assert sim.calls.count("load_code") == 2, "once for each device"
    module["scale"](there, out, 1, 10, 0, 4, 0)
    assert len(sim.launches) == 2, "there is nothing to do"


def test_launches_in_streams(sim: Simulator) -> None:
    module, x = scaling(), np.arange(8, dtype="float32")
    there, out = nd.array(x, DEV), nd.array(np.zeros(8, "float32"), DEV)
    stream = DEV.create_raw_stream()
    DEV.set_raw_stream(stream)
    module["scale"](there, out, 3.0, 8, 2, 4, 0)
    assert len(sim.queues[stream]) == 1, "a launch need not wait"
    np.testing.assert_array_equal(out.numpy(), x * 3)
    DEV.free_raw_stream(stream)


def test_wrong_calls(sim: Simulator) -> None:
    scale = scaling()["scale"]
    there, out = nd.array(np.zeros(4, "float32"), DEV), nd.empty((4,), device=DEV)
    with pytest.raises(
        ValueError,
        match=r"the kernel `scale` runs on vpi\(0\), but its argument 1 is a tensor on cpu\(0\); copy it first",
    ):
        scale(there, nd.empty((4,)), 1.0, 4, 1, 4, 0)
    with pytest.raises(ValueError, match=r"runs on vpi devices, but its argument 0 is a tensor on cpu\(0\)"):
        scale(nd.empty((4,)), out, 1.0, 4, 1, 4, 0)
    with pytest.raises(ValueError, match=r"runs on vpi\(0\), but its argument 1 is a tensor on vpi\(1\)"):
        scale(there, nd.empty((4,), device=OTHER), 1.0, 4, 1, 4, 0)
    with pytest.raises(
        TypeError, match="`scale` takes 4 arguments and 3 numbers of its launch, but 5 values were given"
    ):
        scale(there, out, 1.0, 4, 1)
    with pytest.raises(TypeError, match="argument 0 of the kernel `scale` must be a tensor or an address"):
        scale(3, out, 1.0, 4, 1, 4, 0)
    with pytest.raises(ValueError, match=r"`scale` cannot be launched with blockIdx\.x = -1"):
        scale(there, out, 1.0, 4, -1, 4, 0)
    with pytest.raises(ValueError, match=r"vpi\(0\): a block has 256 threads at most, but scale asks for 300"):
        scale(there, out, 1.0, 4, 1, 300, 0)
    with pytest.raises(ValueError, match="bytes of shared memory, but scale asks for 65536"):
        scale(there, out, 1.0, 4, 1, 4, 1 << 16)
    with pytest.raises(ValueError, match=r"is bound to `vthread\.x`; a launch has blockIdx\.x to threadIdx\.z"):
        device_module("vpi", "python", [b""], [LaunchedKernel("f", (), ("vthread.x",))])
    module = device_module("vpi", "spirv", [b""], [LaunchedKernel("f", (), ())])
    with pytest.raises(ValueError, match="loads code in the forms python and object, not spirv"):
        module["f"]()
    module = device_module("webgpu", "wgsl", [b""], [LaunchedKernel("f", (), ())])
    with pytest.raises(ValueError, match="device type webgpu has no runtime in this process"):
        module["f"]()
    assert not sim.launches


def added() -> tvm.IRModule:
    """b = a + 1, eight threads to a block."""
    a = te.placeholder((20,), name="a")
    sch = tvm.tir.Schedule(te.create_prim_func([a, te.compute((20,), lambda i: a[i] + 1.0, name="b")]))
    i, j = sch.split(sch.get_loops(sch.get_block("b"))[0], [None, 8])
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    return sch.mod


def test_tensor_programs(sim: Simulator, tmp_path: Path) -> None:
    with simulated_target():
        built = tvm.build(added(), target="simulated")
        built.export_library(str(tmp_path / "added.so"))
        (kernels,) = built.imported_modules
        assert "define" in kernels.get_source() and kernels.type_key == "vpi"
        x = np.arange(20, dtype="float32")
        for module in (built, load_module(str(tmp_path / "added.so"))):
            for device in (DEV, OTHER):
                out = nd.empty((20,), device=device)
                module(nd.array(x, device), out)
                np.testing.assert_array_equal(out.numpy(), x + 1)
        assert sim.launches == [("main_kernel", (3, 1, 1, 8, 1, 1), 0)] * 4
        with pytest.raises(ValueError, match=r"argument 0 \(a\): its device type must be 9 \(vpi\), but is 1"):
            built(nd.array(x), nd.empty((20,), device=DEV))
        with pytest.raises(
            ValueError, match=r"argument 1 \(b\): the number of its device must be equal to device_id, but is 1"
        ):
            built(nd.array(x, DEV), nd.empty((20,), device=OTHER))
        timed = built.time_evaluator(built.entry_name, DEV, number=5, repeat=2)
        assert timed(nd.array(x, DEV), nd.empty((20,), device=DEV)).results == (3.0, 3.0), (
            "three blocks, by its own clock"
        )


def test_sizes_known_at_run_time(sim: Simulator) -> None:
    with simulated_target():
        n = te.var("n")
        a = te.placeholder((n,), name="a")
        func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="b")])
        sch = tvm.tir.Schedule(func)
        i, j = sch.split(sch.get_loops(sch.get_block("b"))[0], [None, 4])
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")
        built = tvm.build(sch.mod, target="simulated")
        for size in (3, 9):
            x, out = np.arange(size, dtype="float32"), nd.empty((size,), device=DEV)
            built(nd.array(x, DEV), out)
            np.testing.assert_array_equal(out.numpy(), x * 2)
        assert [extents[0] for _, extents, _ in sim.launches] == [1, 3]


def test_assertions(sim: Simulator) -> None:
    """What a kernel may not access is left out, and the error says which access, and of which thread."""
    x = np.arange(100, dtype="float32")
    with simulated_target(), tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        there, out = nd.array(x, DEV), nd.empty((100,), device=DEV)
        built = tvm.build(stray, target="simulated")
        assert "atomicrmw add" in built.imported_modules[0].get_source()
        for _ in range(2):
            with pytest.raises(AssertionError) as caught:
                built(there, out)
            message = str(caught.value)
            assert message.startswith(
                "index out of bounds: dimension 0 of buffer x has 100 elements, index blockIdx_x * 32 + threadIdx_x\n"
            )
            assert LINE in message and "| " + " " * 16 in message
            assert message.endswith(
                "\n  the index is 100\n  in the kernel `stray_kernel` on vpi(0), thread (4, 0, 0) of block (3, 0, 0), and 27 more times"
            )
        np.testing.assert_array_equal(out.numpy(), x * 2)
        with tvm.transform.PassContext(config={"tir.disable_assert": True, "tir.instrument_bound_checkers": True}):
            assert "atomicrmw" not in tvm.build(stray, target="simulated").imported_modules[0].get_source()


@T.prim_func
def told(x: T.Buffer((8,), "int64")) -> None:
    for t in T.thread_binding(8, thread="threadIdx.x"):
        assert x[t] != T.int64(5), "five is taken"
        x[t] = x[t] + T.int64(1)


def test_assertions_of_programs(sim: Simulator) -> None:
    with simulated_target():
        built = tvm.build(told, target="simulated")
        there = nd.array(np.arange(8) * 10, DEV)
        built(there)
        np.testing.assert_array_equal(there.numpy(), np.arange(8) * 10 + 1)
        there = nd.array(np.arange(8), DEV)
        with pytest.raises(
            AssertionError, match=r"^five is taken\n  in the kernel `told_kernel` on vpi\(0\), thread \(5, 0, 0\) of"
        ):
            built(there)
        np.testing.assert_array_equal(there.numpy(), [1, 2, 3, 4, 5, 5, 7, 8])


def test_memory_between_kernels(sim: Simulator) -> None:
    """What lies between two kernels of one function is in the memory of the device that runs them, and stays with the thread."""
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    sch = tvm.tir.Schedule(te.create_prim_func([a, te.compute((n,), lambda i: b[i] * b[n - 1 - i], name="c")]))
    for block in ("b", "c"):
        sch.bind(sch.get_loops(sch.get_block(block))[0], "blockIdx.x")

    def run() -> None:
        for device in (DEV, OTHER):
            for size in (5, 3):
                x = np.arange(size, dtype="float32")
                out = nd.empty((size,), device=device)
                built(nd.array(x, device), out)
                np.testing.assert_array_equal(out.numpy(), (x + 1) * (x + 1)[::-1])

    with simulated_target():
        built = tvm.build(sch.mod, target="simulated")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run).result()
    assert [name for name, _, _ in sim.launches] == ["main_kernel", "main_kernel_1"] * 4
