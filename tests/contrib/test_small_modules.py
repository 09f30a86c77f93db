"""Libraries by name, sparse matrices, kept results, functions on foreign tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.contrib import (
    cblas,
    cublas,
    cublaslt,
    dnnl,
    emcc,
    hipblas,
    mkl,
    pickle_memoize,
    sparse,
    stackvm,
    thrust,
)

RNG = np.random.default_rng(3)


def run(outs: Any, tensors: list[Any], arrays: list[Any]) -> np.ndarray[Any, Any]:
    held = tvm.nd.array(np.zeros([int(d) for d in outs.shape], str(outs.dtype)))
    tvm.build(te.create_schedule(outs.op), [*tensors, outs], "llvm")(*[tvm.nd.array(a) for a in arrays], held)
    return held.numpy()


@pytest.mark.parametrize(
    "library", [cblas, mkl, dnnl, cublas, cublaslt, hipblas], ids=lambda m: m.__name__.rpartition(".")[2]
)
def test_products_by_libraries(library: Any) -> None:
    a, b = RNG.random((5, 3), "float32"), RNG.random((4, 5), "float32")
    x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
    found = run(library.matmul(x, y, transa=True, transb=True), [x, y], [a, b])
    np.testing.assert_allclose(found, a.T @ b.T, rtol=1e-5)


@pytest.mark.parametrize("library", [mkl, cublas, hipblas], ids=lambda m: m.__name__.rpartition(".")[2])
def test_products_in_batches_by_libraries(library: Any) -> None:
    a, b = RNG.random((2, 3, 5), "float32"), RNG.random((2, 5, 4), "float32")
    x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
    np.testing.assert_allclose(run(library.batch_matmul(x, y), [x, y], [a, b]), a @ b, rtol=1e-5)


def test_bytes_are_added_up_in_int32() -> None:
    a, b = RNG.integers(0, 255, (3, 50)).astype("uint8"), RNG.integers(-128, 127, (50, 4)).astype("int8")
    x, y = te.placeholder(a.shape, "uint8", "x"), te.placeholder(b.shape, "int8", "y")
    np.testing.assert_array_equal(run(mkl.matmul_u8s8s32(x, y), [x, y], [a, b]), a.astype("int32") @ b.astype("int32"))


def test_a_convolution_by_dnnl() -> None:
    a, w = RNG.random((1, 5, 5, 3), "float32"), RNG.random((3, 3, 3, 2), "float32")
    x, k = te.placeholder(a.shape, name="x"), te.placeholder(w.shape, name="k")
    found = run(dnnl.dnnl_conv2d(x, k, 1, 1, 1, 1, channel_last=True), [x, k], [a, w])
    np.testing.assert_allclose(found, topi.testing.conv2d_nhwc_python(a, w, 1, 1), rtol=1e-4)


FULL = np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3], [0, 4, 0]], np.float32)


def test_sparse_arrays() -> None:
    held = sparse.array(FULL)
    assert held.shape == (4, 3) and held.stype == "csr" and held.data.shape == (4,)
    np.testing.assert_array_equal(held.numpy(), FULL)
    again = sparse.array((held.data, held.indices, held.indptr), shape=(4, 3))
    np.testing.assert_array_equal(again.asnumpy(), FULL)
    with pytest.raises(NotImplementedError, match="the form is 'coo'"):
        sparse.array(FULL, stype="coo")


@pytest.mark.parametrize("nonzeros", [4, None])
def test_products_of_sparse_matrices(nonzeros: int | None) -> None:
    held, b, c = sparse.array(FULL), RNG.random((3, 5), "float32"), RNG.random(4, "float32")
    a = sparse.placeholder((4, 3), nonzeros, "float32", "a")
    y, z = te.placeholder(b.shape, name="y"), te.placeholder(c.shape, name="z")
    parts, given = [a.data, a.indices, a.indptr], [held.data.numpy(), held.indices.numpy(), held.indptr.numpy()]
    found = run(topi.sparse.csrmm(a, y, z), [*parts, y, z], [*given, b, c])
    np.testing.assert_allclose(found, FULL @ b + c[:, None], rtol=1e-5)
    column = te.placeholder((3, 1), name="column")
    found = run(topi.sparse.csrmv(a, column), [*parts, column], [*given, b[:, :1].copy()])
    np.testing.assert_allclose(found, FULL @ b[:, :1], rtol=1e-5)


def test_dense_of_sparse_operands() -> None:
    held, b, c = sparse.array(FULL), RNG.random((5, 3), "float32"), RNG.random(5, "float32")
    a = sparse.placeholder((4, 3), 4, "float32", "a")
    w, z = te.placeholder(b.shape, name="w"), te.placeholder(c.shape, name="z")
    parts, given = [a.data, a.indices, a.indptr], [held.data.numpy(), held.indices.numpy(), held.indptr.numpy()]
    np.testing.assert_allclose(
        run(topi.sparse.dense(a, w, z), [*parts, w, z], [*given, b, c]), FULL @ b.T + c, rtol=1e-5
    )
    np.testing.assert_allclose(run(topi.sparse.dense(w, a), [w, *parts], [b, *given]), b @ FULL.T, rtol=1e-5)


CALLS: list[int] = []


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_memoize, "GLOBAL_CACHE_DIR", str(tmp_path / "kept"))
    CALLS.clear()

    @pickle_memoize.memoize("test_results_are_kept")
    def square(x: int) -> int:
        CALLS.append(x)
        return x * x

    assert [square(3), square(3), square(4)] == [9, 9, 16] and CALLS == [3, 4]
    cache = pickle_memoize.Cache("again", True)
    cache.cache["a"] = 1
    cache.dirty = True
    cache.save()
    assert pickle_memoize.Cache("again", False).cache == {"a": 1}


def test_results_that_depend_on_more_than_arguments_are_refused() -> None:
    seen: list[int] = []
    with pytest.raises(TypeError, match="memoize: <lambda> reads a list of the function around it"):
        pickle_memoize.memoize("refused")(lambda x: len(seen) + x)


def test_functions_on_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from tilewright.contrib import dlpack

    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="y")
    f = dlpack.to_pytorch_func(tvm.build(te.create_schedule(y.op), [x, y], "llvm"))
    a, out = torch.arange(4, dtype=torch.float32), torch.zeros(4)
    f(a, out)
    assert out.tolist() == [0, 2, 4, 6]


def test_thrust_is_not_there_unless_registered() -> None:
    target = tvm.target.Target("cuda -libs=thrust")
    with pytest.warns(
        UserWarning, match="the target asks for thrust, but there is no packed function tvm.contrib.thrust.sort_x"
    ):
        assert not thrust.can_use_thrust(target, "tvm.contrib.thrust.sort_x")
    tvm.register_func("tvm.contrib.thrust.sort_y", lambda *args: None, override=True)
    assert thrust.can_use_thrust(target, "tvm.contrib.thrust.sort_y")


def test_a_list_of_files(tmp_path: Path) -> None:
    stackvm.build(str(tmp_path / "list"), ["a.o", "b.o"])
    assert (tmp_path / "list").read_text() == "a.o\nb.o\n"


def test_libraries_of_no_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tvm.TVMError, match=r"made.wasm has nothing to be linked from: give at least one object"):
        emcc.create_tvmjs_wasm(tmp_path / "made.wasm", [])
