"""Code on devices of CUDA: PTX and source, launches, their limits and errors, the device's clock."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.cuda import Fake
from tests.cuda.back_end import fake_target
from tests.runtime.stray_program import LINE, stray
from tilewright import nd
from tilewright.runtime import Module, register_func
from tilewright.runtime.device_module import LaunchedKernel, device_module

DEV, OTHER = tvm.cuda(0), tvm.cuda(1)
FAKE = Fake()
AXES, SHARED, COOPERATIVE = ("blockIdx.x", "threadIdx.x"), "tir.use_dyn_shared_memory", "tir.use_cooperative_launch"
KERNELS = [
    LaunchedKernel("scale", ("handle", "handle", "float32", "int32"), AXES),
    LaunchedKernel("turn", ("handle", "handle"), (*AXES, SHARED)),
    LaunchedKernel("stray", ("handle",), AXES, place="program.py:7"),
    LaunchedKernel("boxed", ("handle", "handle"), AXES, maps=[[0, "float32", 128, [6, 5, 8], [40, 8], [1, 4, 32]]]),
]
PTX = b".version 7.0\n.target sm_80\n.entry scale()\n.entry turn()\n.entry stray()\n.entry boxed()\n"
SOURCE = b"""
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}
"""


# The NVRTC of this folder, also where a package has a real one.
register_func("runtime.cuda.nvrtc", lambda: [""], override=True)


@pytest.fixture(name="fake")
def _fake() -> Iterator[Fake]:
    FAKE.calls()
    yield FAKE
    FAKE.set(major=8, minor=0, cooperative=1)
    gc.collect()  # errors that a test has caught hold its modules
    assert FAKE.live("modules") == 0, "code was not unloaded"


def of_ptx() -> Module:
    return device_module("cuda", "ptx", [PTX], KERNELS)


def test_tensor_maps(fake: Fake) -> None:
    """The driver writes a tensor map at each launch: dimensions from the innermost one, strides in bytes."""
    x, y = nd.array(np.arange(240, dtype="float32") + 3, DEV), nd.empty((11,), device=DEV)
    module = of_ptx()
    module["boxed"](x, y, 1, 1)
    np.testing.assert_array_equal(y.numpy(), [3, 8, 5, 6, 32, 160, 32, 4, 1, 7, 3])
    assert fake.calls("cuTensorMapEncodeTiled", "cuLaunchKernel") == [
        "cuTensorMapEncodeTiled",
        "cuLaunchKernel boxed 1x1 0",
    ]
    with pytest.raises(
        ValueError, match="argument 0 of the kernel `boxed` is at address .* multiple of 16 bytes; copy it first"
    ):
        module["boxed"](x._create_view((8,), "float32", 4), y, 1, 1)
    fake.refuse("cuTensorMapEncodeTiled", 1)
    with pytest.raises(
        RuntimeError, match="the driver makes no tensor map of argument 0 of the kernel `boxed` on cuda"
    ):
        module["boxed"](x, y, 1, 1)


def test_launches(fake: Fake) -> None:
    module, x = of_ptx(), np.arange(10, dtype="float32")
    for device in (DEV, OTHER):
        there, out = nd.array(x, device), nd.empty((10,), device=device)
        module["scale"](there, out, 2.5, 10, 3, 4)
        np.testing.assert_array_equal(out.numpy(), x * 2.5)
    calls = fake.calls("cuModuleLoadDataEx", "cuLaunchKernel", "cuFuncSetAttribute")
    assert calls == ["cuModuleLoadDataEx", "cuLaunchKernel scale 3x4 0"] * 2, "once for each device"
    view = there._create_view((4,), "float32", 8)
    module["scale"](view, out, 10.0, 4, 1, 4)
    np.testing.assert_array_equal(out.numpy()[:4], [20, 30, 40, 50])


def test_launches_in_streams(fake: Fake) -> None:
    module, x = of_ptx(), np.arange(4, dtype="float32")
    there, out = nd.array(x, DEV), nd.array(x, DEV)
    stream = DEV.create_raw_stream()
    DEV.set_raw_stream(stream)
    fake.calls()
    module["scale"](there, out, 3.0, 4, 1, 4)
    assert not fake.calls("cuStreamSynchronize", "cuCtxSynchronize"), "a launch need not wait"
    np.testing.assert_array_equal(out.numpy(), x * 3)
    DEV.set_raw_stream(None)
    DEV.free_raw_stream(stream)


def test_threads(fake: Fake) -> None:
    """Each with arrays and a stream of its own."""
    module = of_ptx()

    def work(k: int) -> None:
        stream = DEV.create_raw_stream()
        DEV.set_raw_stream(stream)
        for i in range(50):
            x = np.full(64, k * 100 + i, "float32")
            there, out = nd.array(x, DEV), nd.empty((64,), device=DEV)
            module["scale"](there, out, 2.0, 64, 4, 16)
            np.testing.assert_array_equal(out.numpy(), x * 2)
        DEV.set_raw_stream(None)
        DEV.free_raw_stream(stream)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_dynamic_shared_memory(fake: Fake) -> None:
    module, x = of_ptx(), np.arange(8, dtype="float32")
    there, out = nd.array(x, DEV), nd.empty((8,), device=DEV)
    module["turn"](there, out, 2, 4, 16)
    np.testing.assert_array_equal(out.numpy(), x.reshape(2, 4)[:, ::-1].reshape(-1))
    assert not fake.calls("cuFuncSetAttribute")
    for _ in range(2):
        module["turn"](there, out, 2, 4, 64 << 10)
    assert len(fake.calls("cuFuncSetAttribute")) == 1, "more than 48 KiB is asked for once"
    with pytest.raises(
        ValueError,
        match=r"the kernel `turn` asks for 205056 bytes of shared memory for each block, and cuda\(0\) has 98304; use",
    ):
        module["turn"](there, out, 2, 4, 200 << 10)


def test_cooperative_launches(fake: Fake) -> None:
    kernel = LaunchedKernel("scale", ("handle", "handle", "float32", "int32"), (*AXES, COOPERATIVE))
    module, x = device_module("cuda", "ptx", [PTX], [kernel]), np.arange(4, dtype="float32")
    there, out = nd.array(x, DEV), nd.empty((4,), device=DEV)
    module["scale"](there, out, 2.0, 4, 1, 4)
    np.testing.assert_array_equal(out.numpy(), x * 2)
    assert fake.calls("cuLaunchKernel", "cuLaunchCooperativeKernel") == ["cuLaunchCooperativeKernel scale 1x4 0"]
    fake.set(cooperative=0)
    with pytest.raises(
        ValueError,
        match=r"the blocks of the kernel `scale` wait for each other, but cuda\(0\) or its driver has no coop",
    ):
        module["scale"](there, out, 2.0, 4, 1, 4)


def test_a_launch_that_fails(fake: Fake) -> None:
    module = of_ptx()
    there, out = nd.empty((4,), device=DEV), nd.empty((4,), device=DEV)
    with pytest.raises(RuntimeError) as caught:
        module["scale"](there, out, 2.5, -4, 7, 2048)
    first, extents, arguments, limits = str(caught.value).splitlines()
    assert first == "the kernel `scale` cannot be launched on cuda(0): CUDA_ERROR_INVALID_VALUE (invalid argument)"
    assert extents == "blocks (7, 1, 1), threads of a block (2048, 1, 1), 0 bytes of dynamic shared memory"
    assert arguments == (
        f"arguments: address {there.data_address:#x}, address {out.data_address:#x}, float32 2.5, int32 -4"
    )
    assert limits == (
        "a block has at most 1024 threads on this device, and 640 of this kernel, whose threads use 102 registers"
    )
    fake.refuse("cuLaunchKernel", 701)
    with pytest.raises(
        RuntimeError, match=r"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES \(too many resources requested for launch\)"
    ):
        module["scale"](there, out, 2.5, 4, 1, 4)


def test_arrays_of_two_devices(fake: Fake) -> None:
    with pytest.raises(
        ValueError,
        match=r"the kernel `scale` runs on cuda\(0\), but its argument 1 is a tensor on cuda\(1\); copy it first",
    ):
        of_ptx()["scale"](nd.empty((4,), device=DEV), nd.empty((4,), device=OTHER), 1.0, 4, 1, 4)


def test_code_that_is_refused(fake: Fake) -> None:
    out = nd.empty((4,), device=DEV)
    with pytest.raises(RuntimeError) as caught:
        device_module("cuda", "ptx", [b"// nothing\n.entry scale()\n"], KERNELS)["stray"](out, 1, 1)
    assert str(caught.value).splitlines() == [
        "cuda(0) (Fake GPU 0, compute capability 8.0) cannot load ptx code: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)",
        "ptxas application ptx input, line 2; fatal   : Missing .version directive at start of file",
        "ptxas fatal   : Ptx assembly aborted due to errors",
    ]
    fake.refuse("cuModuleLoadDataEx", 222)
    with pytest.raises(
        RuntimeError, match=r"UNSUPPORTED_PTX_VERSION; it is of a newer CUDA than the driver's, which is 12\.4"
    ):
        of_ptx()["stray"](out, 1, 1)
    fake.refuse("cuModuleLoadDataEx", 209)
    with pytest.raises(RuntimeError, match="NO_BINARY_FOR_GPU; it is for other devices: build for -arch=sm_80"):
        of_ptx()["stray"](out, 1, 1)
    with pytest.raises(
        ValueError, match=r'the code on cuda\(0\) has no kernel `other`; in CUDA source it must be declared extern "C"'
    ):
        device_module("cuda", "ptx", [PTX], [LaunchedKernel("other", (), AXES)])["other"](1, 1)
    with pytest.raises(ValueError, match=r"cuda\(0\) loads code in the forms ptx, cubin, fatbin and cuda, not spirv"):
        device_module("cuda", "spirv", [b""], KERNELS)["stray"](out, 1, 1)


def test_source(fake: Fake) -> None:
    """Compiled by NVRTC for the device that it is loaded on."""
    x = np.arange(4, dtype="float32")
    there, out = nd.array(x, DEV), nd.empty((4,), device=DEV)
    module = device_module("cuda", "cuda", [SOURCE], KERNELS[:1])
    module["scale"](there, out, 2.0, 4, 1, 4)
    np.testing.assert_array_equal(out.numpy(), x * 2)
    register_func("runtime.cuda.nvrtc", lambda: ["", "-I/some/where"], override=True)
    try:
        fake.set(minor=9)  # which this NVRTC does not know: PTX of the newest that it knows
        device_module("cuda", "cuda", [SOURCE], KERNELS[:1])["scale"](there, out, 3.0, 4, 1, 4)
    finally:
        register_func("runtime.cuda.nvrtc", lambda: [""], override=True)
    np.testing.assert_array_equal(out.numpy(), x * 3)
    with pytest.raises(RuntimeError) as caught:
        device_module("cuda", "cuda", [b"// first\n#error no\n// last\n"], KERNELS[:1])["scale"](
            there, out, 2.0, 4, 1, 4
        )
    assert str(caught.value).splitlines() == [
        "NVRTC cannot compile the kernels of cuda(0): NVRTC_ERROR_COMPILATION",
        "kernels.cu(2): catastrophic error: #error directive",
        "    1 | // first",
        ">   2 | #error no",
        "    3 | // last",
    ]
    fake.set(major=3, minor=5)
    with pytest.raises(RuntimeError, match=r"compiles for no device of compute capability 3\.5, such as cuda\(0\)"):
        device_module("cuda", "cuda", [SOURCE], KERNELS[:1])["scale"](there, out, 2.0, 4, 1, 4)


def test_headers_of_source(fake: Fake) -> None:
    """They are found beside NVRTC, as the toolkit has them."""
    there = nd.empty((4,), device=DEV)
    source = b"#include <cuda_fp16.h>\n" + SOURCE
    with pytest.raises(RuntimeError) as caught:
        device_module("cuda", "cuda", [source], KERNELS[:1])["scale"](there, there, 2.0, 4, 1, 4)
    assert "> " in str(caught.value) and str(caught.value).splitlines()[-1] == (
        "CUDA's headers are missing: install the package nvidia-cuda-runtime (or the toolkit of CUDA), or build the library where"
        " NVRTC is installed, so that it has PTX"
    )
    folder = Path(os.environ["LD_LIBRARY_PATH"].split(os.pathsep)[0]).parent / "include"
    folder.mkdir()
    try:
        (folder / "cuda_fp16.h").touch()
        device_module("cuda", "cuda", [source], KERNELS[:1])["scale"](there, there, 2.0, 4, 1, 4)
    finally:
        shutil.rmtree(folder)


def test_an_access_that_is_checked(fake: Fake) -> None:
    """The error has the kernel and the line; the device goes on."""
    x = np.arange(100, dtype="float32")
    with fake_target(), tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        built = tvm.build(stray, target="fake_cuda")
        there, out = nd.array(x, DEV), nd.array(x, DEV)
        with pytest.raises(AssertionError) as caught:
            built(there, out)
        assert LINE in str(caught.value) and str(caught.value).endswith(
            "\n  the index is 100\n  in the kernel `stray_kernel` on cuda(0), thread (4, 0, 0) of block (3, 0, 0), and 27 more times"
        )
        np.testing.assert_array_equal(out.numpy(), x * 2)


def test_the_clock(fake: Fake) -> None:
    module = of_ptx()
    there, out = nd.empty((4,), device=DEV), nd.empty((4,), device=DEV)
    timed = module.time_evaluator("scale", DEV, number=3, repeat=2)(there, out, 1.0, 4, 5, 4)
    assert timed.results == (5.0, 5.0) and fake.live("events") < 8


def test_a_device_that_is_lost(fake: Fake) -> None:
    """The call that waits learns it; the CPU and the other device go on."""
    module, x = of_ptx(), np.float32([1, 2])
    there = nd.array(x, OTHER)
    module["stray"](there, 1, 1)
    with pytest.raises(RuntimeError) as caught:
        there.numpy()
    assert str(caught.value) == (
        "cannot wait for cuda(1): CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); the last kernel that it"
        " was given is `stray` (program.py:7); cuda(1) can do nothing more in this process, start a new one for it; other devices go on."
        " Compiled with the option tir.instrument_bound_checkers, kernels say which access is outside, and its line"
    )
    with pytest.raises(RuntimeError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS.*cuda\(1\) can do nothing more"):
        module["scale"](there, there, 1.0, 2, 1, 2)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        nd.empty((2,), device=OTHER)
    del there
    np.testing.assert_array_equal(nd.array(x, DEV).numpy(), x)
    np.testing.assert_array_equal(nd.array(x).numpy() + 1, [2, 3])
    fake.heal(1)
