"""Streams and tensors of other packages in the process, such as PyTorch: whose stream a call goes to, and what DLPack orders."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cuda import Fake
from tilewright import nd
from tilewright.runtime import get_global_func, register_func, remove_global_func
from tilewright.runtime.device_module import LaunchedKernel, device_module

DEV = tvm.cuda(0)
FAKE = Fake()
PTX = b".version 7.0\n.target sm_80\n.entry scale()\n"
SCALE = LaunchedKernel("scale", ("handle", "handle", "float32", "int32"), ("blockIdx.x", "threadIdx.x"))
NAME = b"dlpack_exchange_api"

View = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
Work = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2), ("before", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
        ("from_python", ctypes.c_void_p), ("to_python", ctypes.c_void_p), ("view", View), ("stream", Work),
    )  # fmt: skip


OURS = Exchange.from_address(_python.PyCapsule_GetPointer(nd.NDArray.__dlpack_c_exchange_api__, NAME))
STREAMS: list[int] = []


@View
def _view(value: Foreign, out: int) -> int:
    return OURS.view(value.array, out)


@Work
def _work(device_type: int, device_id: int, out: Any) -> int:
    out[0] = STREAMS[-1]
    return 0


THEIRS = Exchange((1, 1), None, None, None, None, _view, _work)


class Foreign:
    """A tensor of another package, which works in the last of STREAMS."""

    __dlpack_c_exchange_api__ = _python.PyCapsule_New(ctypes.addressof(THEIRS), NAME, None)

    def __init__(self, array: nd.NDArray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def current() -> int:
    get: Any = get_global_func("runtime.GetCurrentStream")
    found: int | None = get(DEV.device_type, DEV.device_id)
    return found or 0


@pytest.fixture(name="stream")
def _stream() -> Any:
    STREAMS.append(DEV.create_raw_stream())
    yield STREAMS[-1]
    assert current() == 0
    DEV.free_raw_stream(STREAMS.pop())


def test_a_call_goes_to_the_stream_of_the_tensors(stream: int) -> None:
    x = np.arange(4, dtype="float32")
    there, out = nd.array(x, DEV), nd.empty((4,), device=DEV)
    module = device_module("cuda", "ptx", [PTX], [SCALE])
    module["scale"](Foreign(there), Foreign(out), 2.0, 4, 1, 4)
    FAKE.calls()
    DEV.sync(stream)
    np.testing.assert_array_equal(out.numpy(), x * 2)
    seen: list[int] = []
    register_func("tests.cuda.seen", lambda *_: seen.append(current()), override=True)
    call: Any = get_global_func("tests.cuda.seen")
    call(nd.array(x), Foreign(there), Foreign(out))
    call(there)
    call(Foreign(nd.array(x)))  # on the CPU
    assert seen == [stream, 0, 0]
    with pytest.raises(TypeError, match="the kernel `scale` takes 4 arguments"):
        module["scale"](Foreign(there), 1)
    remove_global_func("tests.cuda.seen")


def test_dlpack_orders_streams(stream: int) -> None:
    """The consumer passes its stream when it asks for a tensor. That stream waits for ours; the CPU does not wait."""
    there = nd.array(np.float32([1, 2]), DEV)
    FAKE.calls()
    there.__dlpack__(stream=stream)
    there.__dlpack__(stream=1)
    there.__dlpack__(stream=-1)
    assert FAKE.calls("cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize", "cuCtxSynchronize") == [
        "cuEventRecord",
        "cuStreamWaitEvent",
    ]
    there.__dlpack__()
    assert FAKE.calls("cuCtxSynchronize")
    asked: list[dict[str, Any]] = []

    class Exporter:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **options: Any) -> Any:
            asked.append(options)
            return there.__dlpack__(stream=-1)

    nd.from_dlpack(Exporter())
    DEV.set_raw_stream(stream)
    nd.from_dlpack(Exporter())
    DEV.set_raw_stream(None)
    assert [o["stream"] for o in asked] == [1, stream]
