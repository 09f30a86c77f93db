"""nn.sparse_dense in vectors: beside NumPy for tiles that do not fill up, blocks of all forms, entries that are out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def sparse(rows: int, columns: int, block: tuple[int, int] | None, density: float = 0.3) -> tuple[np.ndarray, Parts]:
    """A random matrix, and its parts: CSR, or blocks."""
    rng = np.random.default_rng(rows + columns)
    br, bc = block or (1, 1)
    keep = rng.random((rows // br, columns // bc)) < density
    keep[0] = False
    blocks = np.where(keep[:, :, None, None], rng.standard_normal((rows // br, columns // bc, br, bc)), 0).astype(
        "float32"
    )
    data = blocks[keep] if block else blocks[keep][:, 0, 0]
    pointers = np.concatenate([[0], np.cumsum(keep.sum(1))]).astype("int32")
    return blocks.transpose(0, 2, 1, 3).reshape(rows, columns), (data, np.nonzero(keep)[1].astype("int32"), pointers)


def product(x: np.ndarray, parts: Parts, target: str, sparse_lhs: bool = False) -> np.ndarray:
    data = relay.var("x", shape=x.shape)
    matrix = tuple([relay.const(p) for p in parts])
    call = relay.nn.sparse_dense(*((matrix, data) if sparse_lhs else (data, matrix)), sparse_lhs=sparse_lhs)
    library = relay.build(tvm.IRModule.from_expr(relay.Function([data], call)), target)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    return module.get_output(0).numpy()


@pytest.mark.parametrize(
    ("rows", "block", "target"),
    [
        *[(rows, None, "llvm") for rows in (1, 3, 16, 70)],
        *[(rows, (16, 1), "llvm") for rows in (1, 20)],
        (1, (3, 1), "llvm"),
        *[(70, block, "llvm") for block in ((1, 4), (3, 2))],
        *[(rows, (32, 1), "llvm -mcpu=x86-64-v3") for rows in (3, 35)],
    ],
)
def test_products(rows: int, block: tuple[int, int] | None, target: str) -> None:
    weight, parts = sparse(96, 24, block)
    x = np.random.default_rng(rows).standard_normal((rows, 24)).astype("float32")
    np.testing.assert_allclose(product(x, parts, target), x @ weight.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "block"), [(2, (16, 1)), (40, None), (1, (3, 1))])
def test_products_with_the_sparse_matrix_first(rows: int, block: tuple[int, int] | None) -> None:
    weight, parts = sparse(48, 20, block)
    x = np.random.default_rng(rows).standard_normal((rows, 20)).astype("float32")
    np.testing.assert_allclose(product(x, parts, "llvm", True), weight @ x.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "block"), [(1, (16, 1)), (20, None), (1, None)])
def test_entries_out_of_bounds_are_ignored(rows: int, block: tuple[int, int] | None) -> None:
    _, (data, indices, pointers) = sparse(32, 8, block)
    indices[::3] = [9, -1, 1 << 20][rows % 3]
    pointers[-1] += 100
    br = block[0] if block else 1
    wanted = np.zeros((32 // br, br, 8), "float32")
    for group in range(32 // br):
        for e in range(pointers[group], min(pointers[group + 1], len(data))):
            if 0 <= indices[e] < 8:
                wanted[group, :, indices[e]] += data[e].reshape(br)
    x = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
    found = product(x, (data, indices, pointers), "llvm")
    np.testing.assert_allclose(found, x @ wanted.reshape(32, 8).T, rtol=1e-4, atol=1e-5)
