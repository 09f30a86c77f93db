"""Weights that are mostly zeros as sparse matrices; transposed weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay import analysis, transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose
from tilewright.relay.data_dep_optimization.sparse_models import (
    convert_model_dense_to_sparse,
    random_sparse_dense_params,
)
from tilewright.support.errors import TVMError


def mostly_zeros(rows: int, columns: int, block: tuple[int, int] = (4, 1)) -> np.ndarray:
    rng = np.random.default_rng(0)
    kept = rng.random((rows // block[0], columns // block[1])) < 0.2
    return (np.kron(kept, np.ones(block)) * rng.standard_normal((rows, columns))).astype("float32")


def results(func: relay.Function, params: Any, x: np.ndarray, kind: str = "debug") -> np.ndarray:
    mod = IRModule.from_expr(relay.bind(func, {k: v.numpy() if hasattr(v, "numpy") else v for k, v in params.items()}))
    return relay.create_executor(kind, mod).evaluate()(x).numpy()  # type: ignore[no-any-return]


def test_matrices_by_blocks() -> None:
    w = mostly_zeros(8, 12)
    sparse = analysis.to_bsr(w, (4, 1))
    dense = np.zeros_like(w)
    for row in range(2):
        for k in range(sparse.indptr[row], sparse.indptr[row + 1]):
            dense[4 * row : 4 * row + 4, sparse.indices[k] : sparse.indices[k] + 1] = sparse.data[k]
    np.testing.assert_array_equal(dense, w)
    with pytest.raises(TVMError, match="a matrix of 8 x 12 cannot be cut into blocks of 3 x 1"):
        analysis.to_bsr(w, (3, 1))


def test_dense_layers() -> None:
    x, w, v = relay.var("x", shape=(3, 16)), relay.var("w", shape=(8, 16)), relay.var("v", shape=(8, 8))
    func = relay.Function([x, w, v], relay.nn.dense(relay.nn.relu(relay.nn.dense(x, w)), v))
    full = np.random.default_rng(1).standard_normal((8, 8)).astype("float32")
    params: dict[str, Any] = {"w": mostly_zeros(8, 16), "v": full}
    data = np.random.default_rng(2).standard_normal((3, 16)).astype("float32")
    want = results(func, params, data)
    new, changed = bsr_dense.convert(func, params, (4, 1), 0.6)
    assert [p.name_hint for p in new.params] == ["x", "w.data", "w.indices", "w.indptr", "v"]
    assert sorted(changed) == ["v", "w.data", "w.indices", "w.indptr"]
    assert list_op_freqs(IRModule.from_expr(new)) == {"nn.sparse_dense": 1, "nn.relu": 1, "nn.dense": 1}
    for kind in ("debug", "aot"):
        np.testing.assert_allclose(results(new, changed, data, kind), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions(layout: str) -> None:
    shape, kernel = ((1, 5, 5, 16), (1, 1, 16, 8)) if layout == "NHWC" else ((1, 16, 5, 5), (8, 16, 1, 1))
    weight = mostly_zeros(8, 16)
    value = weight.T.reshape(kernel) if layout == "NHWC" else weight.reshape(kernel)
    x, w = relay.var("x", shape=shape), relay.var("w", shape=kernel)
    conv = relay.nn.conv2d(x, w, data_layout=layout, kernel_layout="HWIO" if layout == "NHWC" else "OIHW")
    func = relay.Function([x, w], relay.nn.relu(conv))
    data = np.random.default_rng(2).standard_normal(shape).astype("float32")
    want = results(func, {"w": value}, data)
    for new, changed in (
        bsr_conv2d.convert(func, {"w": value}, (4, 1), 0.6, layout),
        bsr_conv2d.convert2(func, {"w": value}, layout, 1, (4, 1), 0.6),
    ):
        assert list_op_freqs(IRModule.from_expr(new)) == {"nn.sparse_conv2d": 1, "nn.relu": 1}
        np.testing.assert_allclose(results(new, changed, data), want, rtol=1e-4, atol=1e-4)
    kept, _ = bsr_conv2d.convert(func, {"w": value}, (4, 1), 0.99, layout)
    assert "nn.conv2d" in list_op_freqs(IRModule.from_expr(kept))
    with pytest.raises(TVMError, match="sparse convolutions have kernels of one element, but the kernel size 3"):
        bsr_conv2d.convert(func, {"w": value}, (4, 1), 0.6, layout, 3)


def test_convolutions_that_are_no_products_stay() -> None:
    x = relay.var("x", shape=(1, 16, 5, 5))
    weight = relay.const(mostly_zeros(8, 16).reshape(8, 16, 1, 1))
    strided = relay.nn.conv2d(x, weight, strides=(2, 2))
    after = transform.Conv2dToSparse2("NCHW", 1, (4, 1), 0.5)(IRModule.from_expr(strided))
    assert list_op_freqs(after) == {"nn.conv2d": 1}


def test_transposed_weights_are_given_transposed() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 6))
    func = relay.Function([x, w], relay.nn.dense(x, relay.transpose(w, [1, 0])))
    value = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
    data = np.random.default_rng(1).standard_normal((2, 8)).astype("float32")
    new, params = simplify_fc_transpose.convert(func, {"w": value})
    assert list(params) == ["w.T"] and list_op_freqs(IRModule.from_expr(new)) == {"nn.dense": 1}
    np.testing.assert_allclose(results(new, params, data), data @ value, rtol=1e-5, atol=1e-5)


def test_shapes_for_all_weights() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 8))
    with pytest.raises(TVMError, match="there must be a shape for each weight, but there are 1 weights and 0 shapes"):
        transform.DenseToSparse(["w"], [])(IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_models_with_random_weights(layout: str) -> None:
    """A convolution and a dense layer become sparse; the weights have the wanted share of zeros, and what is computed is of them."""
    pytest.importorskip("scipy.sparse")
    shape, kernel = ((1, 2, 2, 16), (1, 1, 16, 32)) if layout == "NHWC" else ((1, 16, 2, 2), (32, 16, 1, 1))
    x, w, v = relay.var("x", shape=shape), relay.var("w", shape=kernel), relay.var("v", shape=(8, 128))
    conv = relay.nn.conv2d(x, w, data_layout=layout, kernel_layout="HWIO" if layout == "NHWC" else "OIHW")
    func = relay.Function([x, w, v], relay.nn.dense(relay.nn.batch_flatten(conv), v))
    rng = np.random.default_rng(3)
    params = {n: rng.standard_normal(s).astype("float32") for n, s in (("w", kernel), ("v", (8, 128)))}
    mod, found = convert_model_dense_to_sparse(
        IRModule.from_expr(func), params, random_params=True, bs_r=4, bs_c=1, sparsity=0.9, layout=layout
    )
    assert sorted(params) == ["v", "w"]
    assert list_op_freqs(mod) == {"nn.sparse_conv2d": 1, "nn.sparse_dense": 1, "nn.batch_flatten": 1}
    blocks = {"w": 32 // 4 * 16, "v": 8 // 4 * 128}
    assert {n: found[f"{n}.data"].shape for n in blocks} == {n: (int(b * 0.1) + 1, 4, 1) for n, b in blocks.items()}
    dense = {}
    for n, columns in (("w", 16), ("v", 128)):
        data, indices, indptr = [found[f"{n}.{part}"].numpy() for part in ("data", "indices", "indptr")]
        dense[n] = np.zeros((4 * (len(indptr) - 1), columns), "float32")
        for row in range(len(indptr) - 1):
            for k in range(indptr[row], indptr[row + 1]):
                dense[n][4 * row : 4 * row + 4, indices[k] : indices[k] + 1] = data[k]
    data = rng.standard_normal(shape).astype("float32")
    given = {"w": (dense["w"].T if layout == "NHWC" else dense["w"]).reshape(kernel), "v": dense["v"]}
    np.testing.assert_allclose(results(mod["main"], found, data), results(func, given, data), rtol=1e-4, atol=1e-4)
    kept, same = convert_model_dense_to_sparse(IRModule.from_expr(func), params, layout=layout)
    assert "nn.conv2d" in list_op_freqs(kept) and sorted(same) == ["v", "w"]


def test_random_weights_that_cannot_be_cut() -> None:
    pytest.importorskip("scipy.sparse")
    x, w = relay.var("x", shape=(1, 6)), relay.var("w", shape=(6, 6))
    func = relay.Function([x, w], relay.nn.dense(x, w))
    weight = np.ones((6, 6), "float32")
    assert random_sparse_dense_params(func, {"w": weight}, 4, 1, 0.1)["w"] is weight
