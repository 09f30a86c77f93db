"""Arrays, devices, functions across the language boundary, and exchange with other frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm


def test_functions_by_name() -> None:
    @tvm.register_func
    def tests_classic_ten(*args: int) -> int:
        assert args == (1, 2, 3)
        return 10

    f = tvm.get_global_func("tests_classic_ten")
    assert isinstance(f, tvm.runtime.PackedFunc)
    assert f(1, 2, 3) == 10
    assert tvm.get_global_func("tests.classic.absent", allow_missing=True) is None
    with pytest.raises(ValueError, match="tests.classic.absent"):
        tvm.get_global_func("tests.classic.absent")


def test_errors_cross_the_boundary() -> None:
    @tvm.register_func("tests.classic.fails", override=True)
    def fails(x: int) -> None:
        raise ValueError(f"bad value {x}")

    with pytest.raises(ValueError, match="bad value 3"):
        tvm.get_global_func("tests.classic.fails")(3)


def test_functions_as_arguments() -> None:
    apply = tvm.runtime.convert(lambda f, x: f(x))
    assert apply(lambda v: v + 1, 3) == 4

    def make_adder(x: int) -> Any:
        return tvm.runtime.convert(lambda y: x + y)

    assert tvm.runtime.convert(make_adder)(2)(5) == 7

    @tvm.register_func("tests.classic.double", override=True)
    def double(x: tvm.nd.NDArray) -> tvm.nd.NDArray:
        assert isinstance(x, tvm.nd.NDArray)
        return tvm.nd.array(x.numpy() * 2)

    out = tvm.get_global_func("tests.classic.double")(tvm.nd.array(np.ones(3, "float32")))
    assert (out.numpy() == 2).all()


def test_arrays() -> None:
    x = tvm.nd.array(np.arange(6).reshape(2, 3).astype("float32"), device=tvm.cpu(0))
    assert (x.shape, x.dtype, x.device, x.ndim) == ((2, 3), "float32", tvm.cpu(0), 2)
    y = tvm.nd.empty((2, 3), "float32", tvm.cpu())
    x.copyto(y)
    assert (y.asnumpy() == x.numpy()).all()
    assert (x.copyto(tvm.cpu(0)).numpy() == x.numpy()).all()
    y.copyfrom(np.zeros((2, 3), "float32"))
    assert y.numpy().sum() == 0
    y[:] = np.ones((2, 3))
    assert y.numpy().sum() == 6
    assert "NDArray shape=(2, 3), cpu(0)>" in repr(x)
    assert str(x) == str(x.numpy())
    with pytest.raises(ValueError, match="shape"):
        y.copyfrom(np.zeros((3, 2), "float32"))


def test_devices() -> None:
    dev = tvm.cpu(0)
    assert dev.exist
    assert (dev.device_type, dev.device_id) == (1, 0)
    assert tvm.device("llvm", 0) == tvm.device("cpu") == dev
    assert str(dev) == "cpu(0)"
    assert not tvm.hexagon(0).exist
    assert tvm.runtime.enabled("llvm")
    dev.sync()


def test_exchange_with_torch() -> None:
    import torch

    t = torch.arange(6.0).reshape(2, 3)
    for a in (tvm.nd.from_dlpack(t), tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(t))):
        t[0, 0] += 1
        assert (a.numpy() == t.numpy()).all()
    b = tvm.nd.array(np.ones((2, 3), "float32"))
    for t in (torch.from_dlpack(b), torch.utils.dlpack.from_dlpack(b.to_dlpack())):
        t[0, 0] += 1
        assert (b.numpy() == t.numpy()).all()


def test_parameters_as_bytes() -> None:
    params = {"w": tvm.nd.array(np.ones((2, 2), "float32")), "n": tvm.nd.array(np.array(3, "int64"))}
    data = tvm.runtime.save_param_dict(params)
    back = tvm.runtime.load_param_dict(bytearray(data))
    assert set(back) == {"w", "n"}
    assert (back["w"].numpy() == 1).all()
    assert back["n"].dtype == "int64"
