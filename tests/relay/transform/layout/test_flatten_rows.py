"""Products of several leading axes: as rows of one matrix where that fills tiles, with what works row by row behind them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule, SourceName, Span
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.rewriting import is_op, static_shape
from tilewright.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"


def layer(images: int, rows: int, width: int = 16, constant: bool = False) -> relay.Function:
    """A layer of a transformer without its attention; the positions' rows are added to each image. constant: whether its weights are."""
    x, places = relay.var("x", shape=(images, rows, width)), relay.var("places", shape=(rows, width))
    first, second = relay.var("first", shape=(2 * width, width)), relay.var("second", shape=(width, 2 * width))
    if constant:
        first, second = (relay.const(np.ones(shape, "float32")) for shape in ((2 * width, width), (width, 2 * width)))
    bias, gamma, beta = (relay.var(n, shape=(e,)) for n, e in (("bias", 2 * width), ("gamma", width), ("beta", width)))
    start = relay.add(x, places)
    hidden = relay.nn.dense(relay.nn.layer_norm(start, gamma, beta), first)
    hidden = relay.nn.relu(relay.nn.bias_add(hidden, bias, -1))
    hidden = relay.multiply(hidden, relay.const(np.full((1, 1, 1), 0.5, "float32")))
    result = relay.add(start, relay.nn.dense(hidden, second))
    weights = [] if constant else [first, second]
    return relay.Function([x, places, *weights, bias, gamma, beta], relay.nn.softmax(result, 2))


def flattened(func: relay.Function) -> relay.Function:
    with Target(TARGET):
        found = transform.FlattenRows()(IRModule.from_expr(func))["main"]
    assert isinstance(found, relay.Function)
    return found


def test_rows_of_all_images_are_rows_of_one_matrix() -> None:
    found = flattened(layer(3, 37))
    shapes = []

    def look(e: relay.Expr) -> None:
        if is_op(e, "nn.dense", "nn.bias_add", "nn.relu", "multiply", "nn.softmax", "reshape"):
            shapes.append((e.op.name, static_shape(e)))  # type: ignore[attr-defined]

    relay.analysis.post_order_visit(found.body, look)
    reshapes = [s for name, s in shapes if name == "reshape"]
    assert {s for name, s in shapes if name != "reshape"} == {(111, 32), (111, 16)}
    # The data that comes as images, normalised and for its sum; the number that is multiplied by; and the result.
    assert sorted(reshapes) == [(1,), (3, 37, 16), (111, 16), (111, 16)]
    assert is_op(found.body, "reshape")


def test_calls_that_know_their_source_are_followed_too() -> None:
    x, weight = relay.var("x", shape=(3, 37, 8)), relay.var("w", shape=(16, 8))
    product = relay.nn.dense(x, weight)
    product = relay.Call(product.op, product.args, product.attrs, (), Span(SourceName("model"), 1, 1, 1, 2))
    body = flattened(relay.Function([x, weight], relay.nn.relu(product))).body
    assert is_op(body, "reshape") and is_op(body.args[0], "nn.relu")  # type: ignore[attr-defined]


@pytest.mark.parametrize("images, rows", [(3, 37), (2, 41), (5, 1)])
def test_values_stay(images: int, rows: int) -> None:
    func = layer(images, rows)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal([int(d) for d in p.type_annotation.shape]).astype("float32") for p in func.params]
    results = [
        relay.create_executor("debug", IRModule.from_expr(f)).evaluate()(*given).numpy()
        for f in (func, flattened(func))
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("images, rows", [(1, 37), (4, 36)])
def test_rows_that_fill_tiles_stay_where_they_are(images: int, rows: int) -> None:
    assert "reshape" not in list_op_freqs(IRModule.from_expr(flattened(layer(images, rows, constant=True))))


def test_a_matrix_that_all_share_is_packed_once() -> None:
    assert "reshape" in list_op_freqs(IRModule.from_expr(flattened(layer(4, 36))))


def test_a_row_of_each_image_meets_its_own() -> None:
    # What is added is another row for each place, and the same for each image: it needs the images.
    x, weight, places = (relay.var(n, shape=s) for n, s in (("x", (3, 37, 8)), ("w", (16, 8)), ("p", (37, 16))))
    body = flattened(relay.Function([x, weight, places], relay.add(relay.nn.dense(x, weight), places))).body
    assert is_op(body, "add") and is_op(body.args[0], "reshape")  # type: ignore[attr-defined]


def test_rows_that_the_model_took_apart_itself() -> None:
    """What follows a reshaped product works on the matrix, so that it can be part of the product's kernel."""
    x, w = relay.var("x", shape=(16, 8)), relay.var("w", shape=(12, 8))
    added, last = relay.var("added", shape=(2, 8, 12)), relay.var("last", shape=(5, 12))
    apart = relay.reshape(relay.nn.dense(x, w), (2, 8, 12))
    body = relay.nn.dense(relay.reshape(relay.add(relay.tanh(apart), added), (16, 12)), last)
    func = relay.Function([x, w, added, last], body)
    found = flattened(func)
    (tanh,) = [e for e in relay.analysis.post_order(found) if is_op(e, "tanh")]
    assert static_shape(tanh) == (16, 12)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype("float32") for s in ((16, 8), (12, 8), (2, 8, 12), (5, 12))]
    before, now = (
        relay.create_executor("debug", IRModule.from_expr(f)).evaluate()(*values).numpy() for f in (func, found)
    )
    np.testing.assert_allclose(now, before, 1e-5, 1e-6)
