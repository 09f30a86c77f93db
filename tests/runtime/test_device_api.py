"""Devices other than the CPU: memory, copies, streams and errors, on a simulator whose memory the CPU cannot touch."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tvm
from tests.runtime import native
from tests.runtime.simulator import TYPE, Simulator, simulator
from tilewright import nd, runtime
from tilewright.runtime.device_api import register_device_api

DEV, OTHER = tvm.vpi(0), tvm.vpi(1)


@pytest.fixture(name="sim")
def _sim() -> Iterator[Simulator]:
    """The simulator; what a test leaves allocated is a leak."""
    sim = simulator()
    assert sim.is_free()
    sim.calls.clear()
    yield sim
    assert sim.is_free(), "memory of the device was not freed"
    assert not sim.refuse, "an error was not met"


def test_attributes(sim: Simulator) -> None:
    assert DEV.exist and OTHER.exist and not tvm.vpi(2).exist
    assert (DEV.warp_size, DEV.max_threads_per_block, DEV.max_shared_memory_per_block) == (4, 256, 1 << 15)
    assert (DEV.compute_version, DEV.device_name, OTHER.device_name) == ("1.5", "simulator 0", "simulator 1")
    assert DEV.max_thread_dimensions == [256, 16, 4] and DEV.total_global_memory == 1 << 40
    assert DEV.driver_version is None and DEV.max_clock_rate is None
    cpu = tvm.cpu(0)
    assert cpu.exist and not tvm.cpu(1).exist and cpu.multi_processor_count and cpu.multi_processor_count >= 1
    assert cpu.total_global_memory and cpu.available_global_memory and cpu.warp_size is None


def test_types_without_a_runtime() -> None:
    device = tvm.webgpu(0)
    assert not device.exist and device.warp_size is None and device.device_name is None
    why = "device type webgpu has no runtime in this process: there is no function `device_api.webgpu`"
    for use in (
        lambda: nd.empty((2,), device=device),
        lambda: nd.array([1.0]).copyto(device),
        device.sync,
        device.create_raw_stream,
        lambda: device.set_raw_stream(1),
    ):
        with pytest.raises(ValueError, match=why):
            use()
    with pytest.raises(ValueError, match="device type 77 has no runtime in this process: DLPack knows no such type"):
        nd.empty((2,), device=runtime.Device(77, 0))


def test_arrays(sim: Simulator) -> None:
    values = np.arange(12, dtype="float32").reshape(3, 4)
    there = nd.array(values, DEV)
    assert there.device == DEV and not there.on_cpu and there.shape == (3, 4)
    np.testing.assert_array_equal(there.numpy(), values)
    back = there.copyto(tvm.cpu(0))
    assert back.device == tvm.cpu(0)
    np.testing.assert_array_equal(back.numpy(), values)
    there[:] = 2
    np.testing.assert_array_equal(there.numpy(), np.full((3, 4), 2, "float32"))
    there.copyfrom(back)
    np.testing.assert_array_equal(there.T.numpy(), values.T)
    assert there.T.device == DEV and str(there) == str(values) and there[1][2] == 6
    assert f"shape=(3, 4), {DEV}" in repr(there)
    second = there.copyto(OTHER)
    assert second.device == OTHER
    np.testing.assert_array_equal(second.numpy(), values)
    np.testing.assert_array_equal(nd.array(second, DEV).numpy(), values)
    assert nd.array(second).device == tvm.cpu(0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float64", "int64", "float32x4"])
def test_types_of_elements(sim: Simulator, dtype: str) -> None:
    here = nd.empty((2, 3), dtype)
    raw = np.random.default_rng(0).integers(0, 2, here._view().view("uint8").shape).astype("uint8")
    here._view().view("uint8")[...] = raw
    there = here.copyto(DEV)
    assert there.dtype == here.dtype
    np.testing.assert_array_equal(there.numpy().view("uint8"), here.numpy().view("uint8"))


def test_empty_and_scalar_arrays(sim: Simulator) -> None:
    assert nd.empty((0, 3), device=DEV).copyto(tvm.cpu(0)).numpy().shape == (0, 3)
    assert nd.array(np.float64(2.5), DEV).numpy() == 2.5
    assert nd.array(nd.array(np.zeros((2, 0))), DEV).numpy().shape == (2, 0)


def test_strided_sources_are_gathered(sim: Simulator) -> None:
    values = np.arange(24, dtype="int32").reshape(4, 6)
    there = nd.empty((2, 3), "int32", DEV)
    runtime.numpyasarray(values[::2, ::2]).copyto(there)
    np.testing.assert_array_equal(there.numpy(), values[::2, ::2])
    with pytest.raises(ValueError, match=r"shape \(2, 3\) on cpu\(0\) that is not contiguous cannot be written"):
        there.copyto(runtime.numpyasarray(values[::2, ::2]))


def test_views_share_memory(sim: Simulator) -> None:
    there = nd.array(np.arange(6, dtype="float32"), DEV)
    view = there._create_view((2,), relative_byte_offset=8)
    np.testing.assert_array_equal(view.numpy(), [2, 3])
    nd.array(np.float32([9, 8])).copyto(view)
    np.testing.assert_array_equal(there.numpy(), [0, 1, 9, 8, 4, 5])
    del there
    np.testing.assert_array_equal(view.numpy(), [9, 8])


def test_memory_of_a_device_is_not_touched(sim: Simulator) -> None:
    there = nd.array([1.0], DEV)
    with pytest.raises(ValueError, match=r"cannot touch memory of vpi\(0\) from the CPU"):
        there._view()
    again = nd.from_dlpack(there.to_dlpack())
    assert again.device == DEV and again.data_address == there.data_address and again.numpy() == [1.0]


def test_scopes(sim: Simulator) -> None:
    there = nd.empty((4,), "float32", DEV, mem_scope="texture")
    assert sim.scopes[there.data_address] == "texture"
    moved = nd.array([1.0]).copyto(DEV, mem_scope="texture")
    assert sim.scopes[moved.data_address] == "texture" and moved.numpy() == [1.0]
    with pytest.raises(ValueError, match=r"vpi\(0\) has no memory scope lake"):
        nd.empty((4,), device=DEV, mem_scope="lake")
    with pytest.raises(ValueError, match="the CPU has no memory scope `texture`"):
        nd.empty((4,), mem_scope="texture")
    assert nd.empty((4,), mem_scope="global").shape == (4,)


def test_streams(sim: Simulator) -> None:
    first, second = DEV.create_raw_stream(), DEV.create_raw_stream()
    source, target = nd.array([1.0, 2.0], DEV), nd.empty((2,), "float64", DEV)
    DEV.set_raw_stream(first)
    assert runtime._ffi.current_stream(DEV) == first and runtime._ffi.current_stream(OTHER) == 0
    source.copyto(target)
    assert len(sim.queues[first]) == 1, "a copy inside of the device need not wait"
    DEV.sync_raw_streams(first, second)
    DEV.sync(second)
    assert not sim.queues[first]
    np.testing.assert_array_equal(target.numpy(), [1, 2])
    others: list[int] = []
    thread = threading.Thread(target=lambda: others.append(runtime._ffi.current_stream(DEV)))
    thread.start()
    thread.join()
    assert others == [0], "a stream is a thread's"
    DEV.free_raw_stream(first)
    assert runtime._ffi.current_stream(DEV) == 0
    DEV.free_raw_stream(second)
    for wrong in (tvm.cpu(0).create_raw_stream, lambda: tvm.cpu(0).sync_raw_streams(1, 2)):
        with pytest.raises(ValueError, match=r"cpu\(0\) has one stream only, its own"):
            wrong()
    tvm.cpu(0).sync()


@pytest.mark.parametrize("name", ["allocate", "copy", "synchronize"])
def test_errors_of_a_device_come_back(sim: Simulator, name: str) -> None:
    sim.refuse[name] = RuntimeError(f"no {name} today")
    with pytest.raises(RuntimeError, match=f"no {name} today") as caught:
        nd.array([1.0, 2.0], DEV)
    assert caught.traceback is not None
    assert nd.array([1.0], DEV).numpy() == [1.0], "it works on"


def test_errors_of_freeing_are_nobodys(sim: Simulator) -> None:
    there = nd.array([1.0], DEV)
    address = there.data_address
    sim.refuse["free"] = RuntimeError("no free today")
    del there
    assert address in sim.live, "the simulator refused it"
    sim.free(DEV, address)
    with pytest.raises(ValueError, match="shapes must be equal"):
        nd.array([1.0]).copyto(nd.empty((2,), "float64"))


def test_too_large(sim: Simulator) -> None:
    with pytest.raises(MemoryError, match=r"vpi\(0\) has no 4398046511104 bytes"):
        nd.empty((1 << 42,), "int8", DEV)


def test_many_threads(sim: Simulator) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            values = np.random.default_rng(seed).random((16, 16))
            for _ in range(20):
                there = nd.array(values, (DEV, OTHER)[seed % 2])
                np.testing.assert_array_equal(there.copyto((OTHER, DEV)[seed % 2]).numpy(), values)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_registering(sim: Simulator) -> None:
    with pytest.raises(ValueError, match="devices of type vpi have a runtime in this process already"):
        register_device_api("vpi", Simulator())
    with pytest.raises(ValueError, match="devices of type cpu have a runtime in this process already"):
        register_device_api("cpu", Simulator())
    with pytest.raises(ValueError, match="unknown device type `vpu`; known are: cpu, cuda"):
        register_device_api("vpu", Simulator())


def test_a_driver_that_is_not_there() -> None:
    def no_driver() -> None:
        raise RuntimeError("cannot load libhexagon.so")

    runtime.register_func("device_api.hexagon", no_driver)
    try:
        assert not tvm.hexagon(0).exist
        with pytest.raises(RuntimeError, match=r"cannot load libhexagon\.so"):
            nd.empty((1,), device=tvm.hexagon(0))
        runtime.register_func("device_api.hexagon", lambda: 7, override=True)
        with pytest.raises(TypeError, match=r"`device_api\.hexagon` must return a table of functions"):
            nd.empty((1,), device=tvm.hexagon(0))
    finally:
        runtime.remove_global_func("device_api.hexagon")


def library() -> ctypes.CDLL:
    """The runtime's C names, as programs in other languages call them: those of the library that this process has."""
    return ctypes.CDLL(runtime.libinfo.LIBRARY)


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


@pytest.mark.parametrize("kind", [1, 9])
def test_classic_c_names(sim: Simulator, kind: int) -> None:
    lib, device, out = library(), DLDevice(kind, 0), ctypes.c_void_p()
    allocate = lib.TVMDeviceAllocDataSpace
    allocate.argtypes = [DLDevice, ctypes.c_size_t, ctypes.c_size_t, DLDataType, ctypes.POINTER(ctypes.c_void_p)]
    assert allocate(device, 100, 128, DLDataType(2, 32, 1), ctypes.byref(out)) == 0 and out.value % 128 == 0
    assert lib.TVMDeviceFreeDataSpace(device, out) == 0
    shape = (ctypes.c_int64 * 2)(3, 4)
    scoped = lib.TVMDeviceAllocDataSpaceWithScope
    assert scoped(device, 2, shape, DLDataType(2, 32, 1), b"global", ctypes.byref(out)) == 0
    assert lib.TVMDeviceFreeDataSpace(device, out) == 0
    assert lib.TVMSynchronize(kind, 0, None) == 0
    take, give = lib.TVMBackendAllocWorkspace, lib.TVMBackendFreeWorkspace
    take.restype, give.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]

    def workspaces() -> None:
        first = take(kind, 0, ctypes.c_uint64(1000), 2, 32)
        second = take(kind, 0, ctypes.c_uint64(1000), 2, 32)
        assert first and second and first != second
        assert give(kind, 0, second) == 0 and take(kind, 0, ctypes.c_uint64(900), 2, 32) == second
        assert give(kind, 0, first) == 0 and give(kind, 0, second) == 0

    # In a thread of its own, with whose end workspaces go.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(workspaces).result()
    assert allocate(DLDevice(15, 0), 1, 1, DLDataType(2, 32, 1), ctypes.byref(out)) != 0
    with pytest.raises(ValueError, match="device type webgpu has no runtime"):
        runtime._ffi.synchronize(tvm.webgpu(0), 0)


def test_workspaces_of_compiled_code(sim: Simulator) -> None:
    """What a library takes by its context's entries: kept for the thread, told apart by device, gone with the thread."""
    held = native.Jit(native.WORKSPACES, ["__tilewright_context", "__tvm_ffi_take", "__tvm_ffi_give"])
    module = runtime.Module.from_symbols(held.symbols, held)
    take, give = module["take"], module["give"]

    def use() -> None:
        here, there = take(1000, TYPE, 0), take(1000, TYPE, 1)
        assert here != there and len(sim.live) == 2
        assert take(1000, TYPE, 0) not in (here, there) and len(sim.live) == 3
        with pytest.raises(ValueError, match=rf"this thread has no workspace on vpi\(1\) at {here:#x}"):
            give(here, TYPE, 1)
        give(here, TYPE, 0)
        with pytest.raises(ValueError, match=rf"this thread has no workspace on vpi\(0\) at {here:#x}"):
            give(here, TYPE, 0)
        assert take(900, TYPE, 0) == here and len(sim.live) == 3
        give(here, TYPE, 0)
        sim.room = 1 << 16
        with pytest.raises(MemoryError, match="has no"):
            take(1 << 20, TYPE, 0)
        on_cpu = take(100, 1, 0)
        give(on_cpu, 1, 0)
        # What was not given back goes as well.

    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(use).result()
    finally:
        sim.room = 1 << 40
    assert sim.is_free()


def test_arrays_that_outlive_the_interpreter() -> None:
    program = """
import builtins, numpy as np
import tilewright as tvm
from tests.runtime.simulator import simulator
simulator()
builtins.kept = tvm.nd.array(np.ones(3), tvm.vpi(0))
print(builtins.kept.numpy().sum())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "3.0\n" and not run.stderr
