"""Devices of OpenCL: arrays, copies, views, streams, kernels, their errors, sessions. In a second run (SHARED=0) the devices share no
memory with the host, so that memory is buffers."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.runtime.stray_program import LINE, stray
from tilewright import nd, rpc, te, tir
from tilewright.runtime import Module
from tilewright.runtime.device_module import LaunchedKernel, device_module
from tilewright.runtime.found_devices import found_devices

DEV, OTHER = tvm.opencl(0), tvm.opencl(1)
SHARED = os.environ["SHARED"] == "1"
AXES, LOCAL = ("blockIdx.x", "threadIdx.x"), "tir.use_dyn_shared_memory"
SOURCE = b"""
__kernel void scale(__global const float* x, __global float* y, float factor, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = x[i] * factor;
}
__kernel void turn(__global const float* x, __global float* y, __local float* t) {
  int i = get_local_id(0), n = get_local_size(0);
  t[i] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = t[n - 1 - i];
}
__kernel void places(__global int* out, uchar a, short b, long c, double d) {
  int x = get_group_id(0), y = get_group_id(1), z = get_group_id(2);
  int i = get_local_id(0), j = get_local_id(1), k = get_local_id(2);
  int block = x + 2 * (y + 3 * z), thread = i + 2 * (j + 2 * k);
  out[block * 8 + thread] = 1000 * block + thread + a + b + (int)c + (int)d;
}
"""
KERNELS = [
    LaunchedKernel("scale", ("handle", "handle", "float32", "int32"), AXES),
    LaunchedKernel("turn", ("handle", "handle"), (*AXES, LOCAL)),
    LaunchedKernel(
        "places",
        ("handle", "uint8", "int16", "int64", "float64"),
        ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"),
    ),
]


def launch(path: str, x: nd.NDArray, y: nd.NDArray) -> None:
    """What the server of the test offers."""
    tvm.runtime.load_module(path).get_function("scale", query_imports=True)(x, y, 3.0, 4, 1, 4)


@pytest.fixture(scope="session", name="server", autouse=True)
def _server() -> Iterator[rpc.Server]:
    """Its process is a copy of this one, made before this one uses OpenCL: drivers do not survive that."""
    tvm.register_func("tests.opencl.launch", launch, override=True)
    server = rpc.Server("127.0.0.1", 0, silent=True)
    yield server
    server.terminate()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    gc.collect()
    for device in (DEV, OTHER):
        assert device.available_global_memory == device.total_global_memory, "memory was not freed"


@pytest.fixture(name="module")
def _module() -> Module:
    return device_module("opencl", "opencl", [SOURCE], KERNELS)


def test_attributes() -> None:
    assert DEV.exist and OTHER.exist and not tvm.opencl(2).exist and tvm.runtime.enabled("opencl")
    assert DEV.device_name and DEV.driver_version and DEV.warp_size == 1
    assert (DEV.compute_version, DEV.api_version) == ("3.0", 300)
    dimensions = DEV.max_thread_dimensions
    assert dimensions is not None and len(dimensions) == 3 and DEV.max_threads_per_block == dimensions[0]
    assert DEV.max_shared_memory_per_block and DEV.multi_processor_count and DEV.total_global_memory
    assert [str(d) for d in found_devices("opencl").devices] == ["opencl(0)", "opencl(1)"]
    before = DEV.available_global_memory
    there = nd.empty((1000,), device=DEV)
    assert before is not None and DEV.available_global_memory == before - 4000
    del there


def test_arrays() -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    there = nd.array(x, DEV)
    twin = nd.empty((3, 4), device=DEV)
    there.copyto(twin)
    away = twin.copyto(OTHER)
    assert away.device == OTHER
    np.testing.assert_array_equal(away.copyto(DEV).numpy(), x)
    large = np.random.default_rng(0).random((3 << 20,), "float32")
    np.testing.assert_array_equal(nd.array(large, OTHER).numpy(), large)
    assert nd.array(np.zeros((0, 3), "int8"), DEV).numpy().shape == (0, 3)


def test_views_at_offsets(module: Module) -> None:
    """An address within an allocation, also as an argument of a kernel."""
    x = np.arange(256, dtype="float32")
    arena, out = nd.array(x, DEV), nd.array(np.zeros(256, "float32"), DEV)
    view = arena._create_view((4,), "float32", 40)
    np.testing.assert_array_equal(view.numpy(), x[10:14])
    nd.array(np.float32([7, 8, 9, 10])).copyto(view)
    np.testing.assert_array_equal(arena.numpy()[8:16], [8, 9, 7, 8, 9, 10, 14, 15])
    module["scale"](arena._create_view((4,), "float32", 512), out._create_view((4,), "float32", 512), 2.0, 4, 1, 4)
    np.testing.assert_array_equal(out.numpy()[126:134], [0, 0, 256, 258, 260, 262, 0, 0])
    if SHARED:
        module["scale"](view, out, 2.0, 4, 1, 4)
        np.testing.assert_array_equal(out.numpy()[:5], [14, 16, 18, 20, 0])
        return
    with pytest.raises(
        ValueError,
        match=r"opencl\(0\): argument 0 of the kernel `scale` begins 40 bytes into an allocation, but this device shares no"
        r" memory with the host, and its kernels take addresses that are multiples of \d+ bytes; copy the tensor first",
    ):
        module["scale"](view, out, 2.0, 4, 1, 4)


def test_dlpack_shares_memory() -> None:
    there = nd.array(np.float32([1, 2, 3]), DEV)
    again = nd.from_dlpack(there)
    assert there.__dlpack_device__() == (4, 0) and again.device == DEV
    nd.array(np.float32([4, 5, 6])).copyto(again)
    np.testing.assert_array_equal(there.numpy(), [4, 5, 6])


def test_launches(module: Module) -> None:
    x = np.arange(1000, dtype="float32")
    for device in (DEV, OTHER):
        there, out = nd.array(x, device), nd.empty((1000,), device=device)
        module["scale"](there, out, 2.5, 1000, 8, 128)
        np.testing.assert_array_equal(out.numpy(), x * 2.5)
        module["turn"](there, out, 10, 100, 400)
        np.testing.assert_array_equal(out.numpy(), x.reshape(10, 100)[:, ::-1].reshape(-1))
    out = nd.empty((24 * 8,), "int32", DEV)
    module["places"](out, 255, -2, 1 << 10, 0.5, 2, 3, 4, 2, 2, 2)
    want = 1000 * np.arange(24)[:, None] + np.arange(8) + 255 - 2 + 1024
    np.testing.assert_array_equal(out.numpy().reshape(24, 8), want)


def test_streams(module: Module) -> None:
    x = np.arange(8, dtype="float32")
    first, second = DEV.create_raw_stream(), DEV.create_raw_stream()
    DEV.set_raw_stream(first)
    there, middle, out = nd.array(x, DEV), nd.empty((8,), device=DEV), nd.empty((8,), device=DEV)
    for _ in range(20):
        module["scale"](there, middle, 2.0, 8, 2, 4)
        DEV.sync_raw_streams(first, second)
        DEV.set_raw_stream(second)
        module["scale"](middle, out, 3.0, 8, 2, 4)
        DEV.sync_raw_streams(second, first)
        DEV.set_raw_stream(first)
    del middle
    DEV.sync(second)
    np.testing.assert_array_equal(out.numpy(), x * 6)
    DEV.set_raw_stream(None)
    DEV.free_raw_stream(first)
    DEV.free_raw_stream(second)


def test_the_clock(module: Module) -> None:
    """An event is a moment of a queue: ten times the work takes longer."""
    there = nd.array(np.ones(1 << 16, "float32"), DEV)
    out = nd.empty((1 << 16,), device=DEV)
    few = module.time_evaluator("scale", DEV, number=5, repeat=3)(there, out, 1.0, 1 << 16, 64, 64)
    many = module.time_evaluator("scale", DEV, number=5, repeat=3)(there, out, 1.0, 1 << 16, 1024, 64)
    assert 0 < few.min < many.min < 1


def test_threads(module: Module) -> None:
    """Each with arrays and a stream of its own, and all with one kernel, whose arguments are set one by one."""

    def work(k: int) -> None:
        stream = DEV.create_raw_stream()
        DEV.set_raw_stream(stream)
        for i in range(30):
            x = np.full(64, k * 100 + i, "float32")
            there, out = nd.array(x, DEV), nd.empty((64,), device=DEV)
            module["scale"](there, out, 2.0, 64, 4, 16)
            np.testing.assert_array_equal(out.numpy(), x * 2)
        DEV.set_raw_stream(None)
        DEV.free_raw_stream(stream)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_compiled_programs() -> None:
    """A product in tiles, which are read through dynamic local memory."""
    n = 64
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), "k")
    sch = tir.Schedule(
        te.create_prim_func([a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")])
    )
    product = sch.get_block("c")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 8]) for loop in sch.get_loops(product))
    sch.reorder(i0, j0, i1, j1, k0, k1)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x")):
        sch.bind(loop, axis)
    for operand in (0, 1):
        tile = sch.cache_read(product, operand, "shared.dyn")
        sch.compute_at(tile, k0)
        for loop, axis in zip(sch.get_loops(tile)[-2:], ("threadIdx.y", "threadIdx.x"), strict=True):
            sch.bind(loop, axis)
    built = tvm.build(sch.mod, target="opencl")
    rng = np.random.default_rng(5)
    x, y = rng.random((n, n), "float32"), rng.random((n, n), "float32")
    for device in (DEV, OTHER):
        out = nd.empty((n, n), device=device)
        built(nd.array(x, device), nd.array(y, device), out)
        np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-4)


def test_no_memory_and_no_device() -> None:
    with pytest.raises(MemoryError) as caught:
        nd.empty((1 << 20, 1 << 20), device=DEV)
    assert re.fullmatch(
        r"opencl\(0\) has no memory for a tensor of shape \(1048576, 1048576\) and dtype float32, which needs 4398046511104 bytes"
        r" \(4\.0 TiB\): of \d+ bytes \(.*\), arrays of this process take 0 bytes, and one array has at most \d+ bytes \(.*\)",
        str(caught.value),
    )
    with pytest.raises(ValueError, match=r"no device opencl\(7\): OpenCL finds 2 devices, opencl\(0\) to opencl\(1\)"):
        nd.empty((2,), device=tvm.opencl(7))
    with pytest.raises(ValueError, match=r"opencl\(0\) has no memory scope `global.texture`; it has global"):
        nd.empty((2,), device=DEV, mem_scope="global.texture")


def test_launches_that_fail(module: Module) -> None:
    there, out = nd.empty((4,), device=DEV), nd.empty((4,), device=DEV)
    with pytest.raises(RuntimeError) as caught:
        module["scale"](there, out, 2.5, 4, 1, 1 << 20)
    first, extents, arguments, limits = str(caught.value).splitlines()
    assert first == "the kernel `scale` cannot be launched on opencl(0): CL_INVALID_WORK_GROUP_SIZE (-54)"
    assert extents == "blocks (1, 1, 1), threads of a block (1048576, 1, 1), 0 bytes of dynamic shared memory"
    assert (
        arguments == f"arguments: address {there.data_address:#x}, address {out.data_address:#x}, float32 2.5, int32 4"
    )
    assert limits.startswith("a block has at most ") and "of this kernel; it uses 0 bytes of local memory, of" in limits
    wrong = LaunchedKernel("scale", ("handle", "handle"), AXES)
    with pytest.raises(
        ValueError, match="the kernel `scale` has 4 parameters in its source, but a launch gives it 2 arguments$"
    ):
        device_module("opencl", "opencl", [SOURCE], [wrong])["scale"](there, out, 1, 1)
    wrong = LaunchedKernel("scale", ("handle", "handle", "float64", "int32"), AXES)
    with pytest.raises(
        ValueError,
        match="argument 2 of the kernel `scale`, a float64, does not fit its parameter in the source: CL_INVALID_ARG_SIZE",
    ):
        device_module("opencl", "opencl", [SOURCE], [wrong])["scale"](there, out, 1.0, 4, 1, 1)
    with pytest.raises(
        ValueError, match=r"runs on opencl\(0\), but its argument 1 is a tensor on opencl\(1\); copy it first"
    ):
        module["scale"](there, nd.empty((4,), device=OTHER), 1.0, 4, 1, 4)


def test_an_access_that_is_checked() -> None:
    """Without the check it would end the process, whose memory the device shares."""
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        built = tvm.build(stray, target="opencl")
    x = np.arange(100, dtype="float32")
    there, out = nd.array(x, DEV), nd.empty((100,), device=DEV)
    with pytest.raises(AssertionError) as caught:
        built(there, out)
    assert LINE in str(caught.value)
    assert re.search(
        r"\n  the index is 1[012]\d\n  in the kernel `stray_kernel` on opencl\(0\), thread \(\d+, 0, 0\) of block \(3, 0, 0\),"
        r" and 27 more times$",
        str(caught.value),
    )
    np.testing.assert_array_equal(out.numpy(), x * 2)


def test_source_that_does_not_build() -> None:
    text = b"__kernel void f(__global float* x) {\n  x[0] = y;\n}\n"
    with pytest.raises(RuntimeError) as caught:
        device_module("opencl", "opencl", [text], [LaunchedKernel("f", ("handle",), AXES)])["f"](
            nd.empty((1,), device=DEV), 1, 1
        )
    lines = str(caught.value).splitlines()
    assert re.fullmatch(r"opencl\(0\) \(.*\) cannot build the kernels: CL_BUILD_PROGRAM_FAILURE \(-11\)", lines[0])
    assert "use of undeclared identifier 'y'" in str(caught.value)
    assert lines[-3:] == ["    1 | __kernel void f(__global float* x) {", ">   2 |   x[0] = y;", "    3 | }"]
    there, other = nd.empty((1,), device=DEV), LaunchedKernel("g", ("handle",), AXES)
    with pytest.raises(ValueError, match=r"the code on opencl\(0\) has no kernel `g`"):
        device_module("opencl", "opencl", [b"__kernel void f() {}"], [other])["g"](there, 1, 1)
    with pytest.raises(ValueError, match=r"opencl\(0\) loads code in the form opencl, not ptx"):
        device_module("opencl", "ptx", [b""], [other])["g"](there, 1, 1)
    np.testing.assert_array_equal(nd.array(np.float32([1, 2])).numpy(), [1, 2])


def test_libraries_and_sessions(module: Module, server: rpc.Server, tmp_path: Path) -> None:
    """Kernels in an exported library, and arrays and launches in a process of their own."""
    a = te.placeholder((4,), name="a")
    host = tvm.build(te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="b")]), target="llvm")
    host.import_module(module)
    host.export_library(str(tmp_path / "kernels.so"))
    x = np.arange(4, dtype="float32")
    here = tvm.runtime.load_module(str(tmp_path / "kernels.so"))
    there, out = nd.array(x, DEV), nd.empty((4,), device=DEV)
    here.get_function("scale", query_imports=True)(there, out, 2.0, 4, 1, 4)
    np.testing.assert_array_equal(out.numpy(), x * 2)
    remote = rpc.connect("127.0.0.1", server.port, session_timeout=120)
    device = remote.cl(0)
    assert device.exist and device.device_name == DEV.device_name and not remote.cl(5).exist
    far, result = nd.array(x, device), nd.empty((4,), "float32", device)
    np.testing.assert_array_equal(far.copyto(nd.empty((4,), "float32", remote.cpu(0))).numpy(), x)
    remote.get_function("tests.opencl.launch")(str(tmp_path / "kernels.so"), far, result)
    np.testing.assert_array_equal(result.numpy(), x * 3)
