"""NDArray: contents, dtypes, memory shared with NumPy and PyTorch, errors."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

from tilewright import runtime
from tilewright.runtime import dtype_name, parse_dtype

DTYPES = ["int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", DTYPES + SMALL)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3, 4), (1,) * 9, (100, 100)])
def test_contents(dtype, shape):
    kind = np.dtype(getattr(ml_dtypes, dtype)) if dtype in SMALL else np.dtype(dtype)
    values = np.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 2, dtype=kind)
    array = runtime.array(values)
    assert array.dtype == dtype and array.shape == shape and array.data_address % 64 == 0
    np.testing.assert_array_equal(array.numpy(), values)
    assert array.numpy().dtype == kind
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)).numpy(), values)
    np.testing.assert_array_equal(runtime.numpyasarray(values).numpy(), values)


def test_dtype_names():
    names = DTYPES + SMALL + ["float32x4", "int4", "handle", "bfloat16x8", "boolx2", "float8_e4m3fnx4", "void"]
    for name in names:
        assert dtype_name(*parse_dtype(name)) == name
    assert parse_dtype("e4m3_float8") == parse_dtype("float8_e4m3fn")
    assert parse_dtype(np.float32) == parse_dtype("float32") == (2, 32, 1)
    with pytest.raises(ValueError, match="unknown data type `flaot32`; examples: float32, int8x16, bfloat16, bool"):
        parse_dtype("flaot32")


def test_memory_is_shared_with_numpy():
    array = runtime.array(np.arange(6, dtype="float32").reshape(2, 3))
    view = np.from_dlpack(array)
    view[1, 2] = 99
    assert array.numpy()[1, 2] == 99
    values = np.arange(12, dtype="int32").reshape(3, 4)[:, ::2]
    back = runtime.from_dlpack(values)
    assert back.strides == (4, 2)
    np.testing.assert_array_equal(back.numpy(), values)
    values[0, 0] = 7
    assert back.numpy()[0, 0] == 7
    back[:] = np.zeros((3, 2), "int32")
    assert not values.any()


def test_memory_is_shared_with_torch():
    array = runtime.array(np.arange(6, dtype="float32").reshape(2, 3))
    tensor = torch.from_dlpack(array)
    assert tensor.data_ptr() == array.data_address
    del array
    tensor[0, 0] = 5
    back = runtime.from_dlpack(tensor)
    assert back.data_address == tensor.data_ptr() and back.numpy()[0, 0] == 5
    half = torch.ones(3, dtype=torch.bfloat16)
    assert runtime.from_dlpack(half).dtype == "bfloat16"
    shape_of = runtime.convert(lambda t: (t.shape, t.dtype))
    assert shape_of(torch.zeros(2, 3, dtype=torch.int64)) == [[2, 3], "int64"]
    capsule = back.to_dlpack()
    assert runtime.from_dlpack(capsule).data_address == tensor.data_ptr()
    with pytest.raises(ValueError, match="expected a DLPack capsule that was not used before"):
        runtime.from_dlpack(capsule)


def test_copies_and_their_errors():
    a = runtime.array([[1.0, 2.0], [3.0, 4.0]])
    b = a.copyto(runtime.cpu(0))
    b[:] = 0
    assert a.numpy().sum() == 10
    assert a.copyto(b) is b and b.numpy().sum() == 10
    np.testing.assert_array_equal(a.T.numpy(), a.numpy().T)
    with pytest.raises(ValueError, match=r"shape \(2, 2\) into one of shape \(3,\): shapes must be equal"):
        a.copyto(runtime.empty((3,), "float64"))
    with pytest.raises(ValueError, match="dtype float64 into one of dtype int32: dtypes must be equal"):
        a.copyto(runtime.empty((2, 2), "int32"))
    with pytest.raises(ValueError, match=r"an array of shape \(3,\) into an NDArray of \(2, 2\)"):
        a[:] = np.zeros(3)
    with pytest.raises(ValueError, match="an NDArray can only be set as a whole"):
        a[0] = 1
    with pytest.raises(ValueError, match=r"cannot allocate shape \(2, -1\): dimension 1 is negative"):
        runtime.empty((2, -1))
    with pytest.raises(
        MemoryError, match=r"a tensor of shape \(1099511627776, 1099511627776\): it is larger than memory"
    ):
        runtime.empty((1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="device type hexagon has no runtime in this process"):
        runtime.empty((2,), device=runtime.hexagon(0))


def test_devices():
    assert runtime.device("cpu", 1) == runtime.cpu(1) and repr(runtime.cpu(0)) == "cpu(0)"
    assert runtime.device("llvm").device_type == 1 and runtime.device(2, 3) == runtime.cuda(3)
    assert hash(runtime.cpu(0)) == hash(runtime.device("cpu"))
    with pytest.raises(ValueError, match="unknown device type `gpuu`; known are: c, cl, composite, cpu"):
        runtime.device("gpuu")


def test_parameter_files():
    params = {"w": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones((), ml_dtypes.bfloat16)}
    data = runtime.save_param_dict(params)
    back = runtime.load_param_dict(data)
    assert list(back) == ["w", "b"]
    for name, value in params.items():
        np.testing.assert_array_equal(back[name].numpy(), value)
    for cut in range(0, len(data), 7):
        with pytest.raises(ValueError, match="truncated or damaged"):
            runtime.load_param_dict(data[:cut])
    with pytest.raises(ValueError, match="no parameter file"):
        runtime.load_param_dict(b"x" * 64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_large_copies_are_of_their_own(dtype):
    """They may lie where a copy lay that nobody holds any more, but never in memory that somebody holds."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    tensor = runtime.array(np.ones((3, 1 << 17), kind))
    first = tensor.numpy()
    held = first[1]
    place = first.ctypes.data
    del first
    second = tensor.numpy()
    second[:] = 0
    assert second.flags.writeable and second.flags.c_contiguous
    assert second.ctypes.data != place and (held == 1).all() and (tensor.numpy() == 1).all()
    del held
    assert (tensor.numpy() == 1).all() and (second == 0).all()
