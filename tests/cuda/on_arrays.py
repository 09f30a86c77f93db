"""Arrays on devices of CUDA: memory, copies, streams, events, pinned memory, and errors of memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tilewright as tvm
from tests.cuda import Fake
from tilewright import nd, runtime

DEV, OTHER, PINNED = tvm.cuda(0), tvm.cuda(1), runtime.Device(3, 0)
FAKE = Fake()
ROOM = 64 << 20


@pytest.fixture(name="fake")
def _fake() -> Iterator[Fake]:
    FAKE.calls()
    yield FAKE
    FAKE.set(peers=1)
    # Nothing waits for what is freed: the next use of the memory takes it back.
    for device in (DEV, OTHER):
        device.sync()
        nd.empty((1,), device=device)
        device.sync()
    nd.empty((1,), device=DEV)
    assert FAKE.live("bytes") <= 16 and FAKE.live("streams") <= 2, "one in which memory is freed for each device"
    assert FAKE.live("host") == 0 and FAKE.library.fake_context_depth() == 0


def test_attributes(fake: Fake) -> None:
    assert DEV.exist and OTHER.exist and not tvm.cuda(2).exist
    assert (DEV.device_name, OTHER.device_name) == ("Fake GPU 0", "Fake GPU 1")
    assert (DEV.compute_version, DEV.warp_size, DEV.max_threads_per_block) == ("8.0", 32, 1024)
    assert DEV.max_thread_dimensions == [1024, 1024, 64] and DEV.multi_processor_count == 108
    assert (DEV.max_shared_memory_per_block, DEV.max_clock_rate, DEV.l2_cache_size_bytes) == (
        48 << 10,
        1410000,
        40 << 20,
    )
    assert (DEV.api_version, DEV.driver_version, DEV.total_global_memory) == (12040, None, ROOM)
    before = DEV.available_global_memory
    there = nd.empty((1000,), device=DEV)
    assert before is not None and DEV.available_global_memory == before - 4000
    del there


def test_arrays(fake: Fake) -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    there = nd.array(x, DEV)
    np.testing.assert_array_equal(there.numpy(), x)
    twin = nd.empty((3, 4), device=DEV)
    there.copyto(twin)
    np.testing.assert_array_equal(twin.numpy(), x)
    away = twin.copyto(OTHER)
    assert away.device == OTHER
    np.testing.assert_array_equal(away.numpy(), x)
    assert "cuMemcpyPeerAsync" in fake.calls() and fake.live("bytes") >= 3 * 48
    fake.set(peers=0)
    np.testing.assert_array_equal(away.copyto(DEV).numpy(), x)
    assert not fake.calls("cuMemcpyPeerAsync"), "through the CPU, where devices do not reach each other"


def test_views_at_offsets(fake: Fake) -> None:
    x = np.arange(64, dtype="float32")
    arena = nd.array(x, DEV)
    view = arena._create_view((4,), "float32", 40)
    np.testing.assert_array_equal(view.numpy(), x[10:14])
    nd.array(np.float32([7, 8, 9, 10])).copyto(view)
    np.testing.assert_array_equal(arena.numpy()[8:16], [8, 9, 7, 8, 9, 10, 14, 15])


def test_dlpack_shares_memory(fake: Fake) -> None:
    there = nd.array(np.float32([1, 2, 3]), DEV)
    assert there.__dlpack_device__() == (2, 0)
    again = nd.from_dlpack(there)
    assert again.device == DEV
    nd.array(np.float32([4, 5, 6])).copyto(again)
    np.testing.assert_array_equal(there.numpy(), [4, 5, 6])


def test_streams(fake: Fake) -> None:
    x, y = np.float32([1, 2]), np.float32([3, 4])
    first, second = DEV.create_raw_stream(), DEV.create_raw_stream()
    DEV.set_raw_stream(first)
    there, target = nd.array(x, DEV), nd.array(y, DEV)
    there.copyto(target)
    assert "cuStreamSynchronize" not in fake.calls()[-1:], "a copy on the device need not wait"
    DEV.sync_raw_streams(first, second)
    DEV.set_raw_stream(second)
    np.testing.assert_array_equal(target.numpy(), x)
    assert {"cuEventRecord", "cuStreamWaitEvent"} <= set(fake.calls())
    DEV.set_raw_stream(None)
    DEV.free_raw_stream(first)
    DEV.free_raw_stream(second)


def test_a_stream_of_another_library(fake: Fake) -> None:
    """Such as that of PyTorch: it is the handle of the driver as an integer."""
    stream = ctypes.c_void_p()
    there = nd.array(np.float32([1, 2]), DEV)
    with_context = ctypes.c_void_p()
    fake.library.cuDevicePrimaryCtxRetain(ctypes.byref(with_context), 10)
    fake.library.cuCtxPushCurrent_v2(with_context)
    fake.library.cuStreamCreate(ctypes.byref(stream), 1)
    assert stream.value is not None
    DEV.set_raw_stream(stream.value)
    assert runtime.get_global_func("runtime.GetCurrentStream")(2, 0) == stream.value
    target = nd.empty((2,), device=DEV)
    there.copyto(target)
    del there
    DEV.set_raw_stream(None)
    DEV.sync()
    np.testing.assert_array_equal(target.numpy(), [1, 2])
    fake.library.cuStreamDestroy_v2(stream)
    fake.library.cuCtxPopCurrent_v2(ctypes.byref(with_context))


def test_memory_is_freed_behind_its_last_use(fake: Fake) -> None:
    """In whatever stream that is, and nothing waits for it."""
    stream = DEV.create_raw_stream()
    there, target = nd.array(np.float32([1, 2]), DEV), nd.empty((2,), device=DEV)
    live = fake.live("bytes")
    DEV.set_raw_stream(stream)
    there.copyto(target)
    DEV.set_raw_stream(None)
    fake.calls()
    del there
    assert fake.live("bytes") == live and not fake.calls("cuStreamSynchronize", "cuCtxSynchronize", "cuMemFreeAsync")
    DEV.sync()
    nd.empty((1,), device=DEV)
    assert fake.live("bytes") < live
    DEV.free_raw_stream(stream)
    np.testing.assert_array_equal(target.numpy(), [1, 2])


def test_threads_have_streams_of_their_own(fake: Fake) -> None:
    stream, found = DEV.create_raw_stream(), []

    def work() -> None:
        DEV.set_raw_stream(stream)
        found.append(nd.array(np.float32([7]), DEV).numpy())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], [7])
    DEV.free_raw_stream(stream)


def test_pinned_memory(fake: Fake) -> None:
    x = np.arange(5, dtype="float32")
    host = nd.array(x, PINNED)
    there = host.copyto(DEV)
    back = nd.empty((5,), device=PINNED)
    fake.calls()
    there.copyto(back)
    assert not fake.calls("cuStreamSynchronize", "cuCtxSynchronize"), "copies with pinned memory need not wait"
    np.testing.assert_array_equal(back.numpy(), x)


def test_no_memory(fake: Fake) -> None:
    with pytest.raises(MemoryError) as caught:
        nd.empty((64, 1 << 20), device=DEV)
    assert str(caught.value).startswith(
        "cuda(0) has no memory for a tensor of shape (64, 1048576) and dtype float32, which needs 268435456 bytes (256.0 MiB): "
    )
    assert "of 67108864 bytes (64.0 MiB) are free. Free arrays there, or use a smaller batch" in str(caught.value)
    held = nd.empty((40 << 18,), device=DEV)
    there = nd.empty((2,), device=DEV)
    nd.empty((2,), device=DEV).copyto(there)
    del held
    big = nd.empty((40 << 18,), device=DEV)  # what was freed is waited for where memory is short
    assert "cuMemPoolTrimTo" in fake.calls()
    del big
    with pytest.raises(
        ValueError, match=r"there is no device cuda\(5\): its driver finds 2 GPUs, cuda\(0\) to cuda\(1\)"
    ):
        nd.empty((2,), device=tvm.cuda(5))
    with pytest.raises(ValueError, match=r"cuda\(0\) has no memory scope `texture`; it has global"):
        nd.empty((2,), device=DEV, mem_scope="texture")
    fake.refuse("cuMemHostAlloc", 2)
    with pytest.raises(
        MemoryError, match=r"the system has no 8 bytes of memory that cuda\(0\) may reach, for a tensor of"
    ):
        nd.empty((2,), device=PINNED)


def test_a_driver_without_pools() -> None:
    """In a process of its own, because a device keeps what it found."""
    code = """
import numpy as np, tilewright as tvm
from tests.cuda import Fake
fake = Fake(); fake.set(pools=0)
x = tvm.nd.array(np.float32([1, 2]), tvm.cuda(0))
assert list(x.numpy()) == [1, 2]
del x
calls = fake.calls()
assert "cuMemAlloc_v2" in calls and "cuMemPoolCreate" not in calls
tvm.cuda(0).sync()
y = tvm.nd.empty((1,), device=tvm.cuda(0))
assert "cuMemFree_v2" in fake.calls() and fake.live("bytes") == 4
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.stdout == "fine\n", done.stderr
