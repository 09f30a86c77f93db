"""Leading axes of dense layers are rows of one matrix: tiles of rows reach over them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor

LEADS = [(8, 1), (3, 7), (2, 3, 5), (1, 4, 1), (5, 13), (2, 1, 1), (1, 7)]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("units", [16, 77])
def test_dense_of_several_leading_axes(lead: tuple[int, ...], units: int, packed: bool) -> None:
    rng = np.random.default_rng(len(lead) + units)
    values = rng.standard_normal((*lead, 33)).astype("float32")
    weights = rng.standard_normal((units, 33)).astype("float32")
    added = rng.standard_normal(units).astype("float32")
    x, w, b = relay.var("x", shape=values.shape), relay.var("w", shape=weights.shape), relay.const(added)
    product = relay.nn.dense(x, relay.const(weights) if packed else w)
    function = relay.Function([x] if packed else [x, w], relay.nn.relu(relay.add(product, b)))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(function), target="llvm -mcpu=native")
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(x=values, **({} if packed else {"w": weights}))
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(values @ weights.T + added, 0), 1e-4, 1e-4)


def test_tiles_reach_over_leading_axes() -> None:
    """197 rows fill no register tile; 8 times 197 do, and weights are then read once for all of them."""
    x, w = relay.var("x", shape=(8, 197, 64)), np.ones((64, 64), "float32")
    function = relay.Function([x], relay.nn.dense(x, relay.const(w)))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(function), target="llvm -mcpu=x86-64-v3")
    (name,) = library.texts.kernels
    assert "(1576, 64)" in library.kernel_source(name, "tir")


@pytest.mark.parametrize(("rows", "width"), [(2, 64), (6, 64), (8, 48), (12, 32), (64, 64)])
def test_panels_are_as_wide_as_the_tile_of_a_few_rows(rows: int, width: int) -> None:
    """Memory bounds such products, so their weights are read in the order in which they lie."""
    x, w = relay.var("x", shape=(rows, 32)), np.ones((768, 32), "float32")
    with tvm.target.Target("llvm -mcpu=x86-64-v4"):
        packed = relay.transform.PackDense()(tvm.IRModule.from_expr(relay.nn.dense(x, relay.const(w))))
    assert packed["main"].body.attrs["weight_layout"] == f"NK{width}n"


@pytest.mark.parametrize(("lead", "rows", "turned"), [((), 5, True), ((2,), 4, False)])
def test_data_stored_by_columns_is_turned_where_the_weights_are_larger(
    lead: tuple[int, ...], rows: int, turned: bool
) -> None:
    """So that the weights are packed once, not in each call."""
    rng = np.random.default_rng(rows)
    values, weights = rng.standard_normal((*lead, 12, rows)), rng.standard_normal((40, 12) if turned else (12, 40))
    x = relay.var("x", shape=values.shape)
    mod = tvm.IRModule.from_expr(
        relay.nn.matmul(x, relay.const(weights.astype("float32")), transpose_a=True, transpose_b=turned)
    )
    assert "nn.contrib_dense_pack" in str(relay.transform.PackDense()(mod))
    found = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(values.astype("float32"))
    expected = values.swapaxes(-1, -2) @ (weights.T if turned else weights)
    np.testing.assert_allclose(found.numpy(), expected, 1e-4, 1e-4)


def test_data_larger_than_the_weights_is_read_where_it_lies() -> None:
    x, w = relay.var("x", shape=(12, 21)), np.ones((12, 40), "float32")
    product = relay.nn.matmul(x, relay.const(w), transpose_a=True)
    assert "dense_pack" not in str(relay.transform.PackDense()(tvm.IRModule.from_expr(product)))
