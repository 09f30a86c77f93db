"""Attention's products: transposed keys are read where they lie, and their scale goes to the smaller factor."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs


def simplified(body: relay.Expr, **inputs: np.ndarray) -> dict[str, int]:
    """How often each operator is left; the values are compared before and after."""
    mod = IRModule.from_expr(body)
    after = transform.SimplifyExpr()(mod)
    values = [inputs[p.name_hint] for p in mod["main"].params]
    before, now = (relay.create_executor("debug", m).evaluate()(*values).numpy() for m in (mod, after))
    np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6)
    return list_op_freqs(after)


def test_keys_of_a_decoder() -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, 3, n, 4)).astype("float32") for n in (1, 9))
    query, key = relay.var("query", shape=q.shape), relay.var("key", shape=k.shape)
    swapped = relay.transpose(relay.reshape(key, (-1, 9, 4)), (0, 2, 1))
    scaled = relay.multiply(relay.reshape(swapped, (2, 3, 4, 9)), relay.const(0.5))
    scores = relay.nn.batch_matmul(relay.multiply(query, relay.const(0.5)), scaled, transpose_b=False)
    assert simplified(scores, query=q, key=k) == {"multiply": 1, "nn.batch_matmul": 1}


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("side", [0, 1])
def test_either_factor(side: int, flags: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(1)
    shapes = [(2, 5, 3) if flags[0] else (2, 3, 5), (2, 4, 5) if flags[1] else (2, 5, 4)]
    a, b = (rng.standard_normal(s if i != side else (s[0], s[2], s[1])).astype("float32") for i, s in enumerate(shapes))
    factors = [relay.var("a", shape=a.shape), relay.var("b", shape=b.shape)]
    factors[side] = relay.transpose(factors[side], (0, 2, 1))
    product = relay.nn.batch_matmul(*factors, transpose_a=flags[0], transpose_b=flags[1])
    assert simplified(product, a=a, b=b) == {"nn.batch_matmul": 1}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("first", "second"), [((6, 2, 5), (1, 5, 4)), ((2, 3, 2, 5), (1, 1, 5, 4)), ((1, 2, 5), (1, 5, 4))]
)
def test_factor_of_all_batches(
    first: tuple[int, ...], second: tuple[int, ...], constant: bool, transposed: bool
) -> None:
    rng = np.random.default_rng(2)
    if transposed:
        second = (*second[:-2], second[-1], second[-2])
    a, b = (rng.standard_normal(s).astype("float32") for s in (first, second))
    factors = [relay.var("a", shape=first), relay.const(b) if constant else relay.var("b", shape=second)]
    product = relay.nn.batch_matmul(*factors, transpose_b=transposed)
    left = simplified(product, a=a) if constant else simplified(product, a=a, b=b)
    alone = first[0] == 1 and not constant
    assert left == ({"nn.batch_matmul": 1} if alone else {"nn.matmul": 1, "reshape": 1})


@pytest.mark.parametrize(
    ("shape", "joined", "axes", "out", "left"),
    [
        ((2, 3, 4, 5), (6, 4, 5), (0, 2, 1), (2, 3, 5, 4), {"transpose": 1}),
        ((2, 3, 4, 5), (6, 20), (1, 0), (4, 5, 2, 3), {"transpose": 1}),
        ((2, 3, 4, 5), (6, 20), (1, 0), (5, 4, 2, 3), {"reshape": 2, "transpose": 1}),
        ((4, 6), (4, 2, 3), (0, 2, 1), (4, 6), {"reshape": 2, "transpose": 1}),
        ((3, 4), (4, 3), (1, 0), (3, 4), {"reshape": 1, "transpose": 1}),
        ((2, 1, 4), (2, 4), (1, 0), (1, 4, 2), {"transpose": 1}),
    ],
)
def test_transposes_of_joined_axes(
    shape: tuple[int, ...], joined: tuple[int, ...], axes: tuple[int, ...], out: tuple[int, ...], left: dict[str, int]
) -> None:
    x = relay.var("x", shape=shape)
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    moved = relay.reshape(relay.transpose(relay.reshape(x, joined), axes), out)
    assert simplified(moved, x=values) == left


def test_scales_that_would_change_the_shape_stay() -> None:
    a, b = np.ones((3, 4), "float32"), np.ones((5, 4), "float32")
    x, y = relay.var("x", shape=a.shape), relay.var("y", shape=b.shape)
    scaled = relay.multiply(relay.transpose(y, (1, 0)), relay.const(np.ones((1, 1, 1), "float32") * 2))
    product = relay.nn.batch_matmul(x, scaled, transpose_b=False)
    assert simplified(product, x=a, y=b)["transpose"] == 1


@pytest.mark.parametrize(
    ("name", "left", "right", "turned"),
    [
        ("matmul", (2, 3, 1), (1, 4), {}),
        ("matmul", (1, 3), (4, 1), {"transpose_a": True, "transpose_b": True}),
        ("batch_matmul", (2, 3, 1), (1, 4, 1), {}),
        ("batch_matmul", (1, 1, 3), (2, 1, 4), {"transpose_a": True, "transpose_b": False}),
    ],
)
def test_sums_of_one_product_are_products_of_pairs(
    name: str, left: tuple[int, ...], right: tuple[int, ...], turned: dict[str, bool]
) -> None:
    a, b = relay.var("a", shape=left), relay.var("b", shape=right)
    mod = transform.InferType()(IRModule.from_expr(getattr(relay.nn, name)(a, b, **turned)))
    simple = transform.SimplifyExpr()(mod)
    assert set(list_op_freqs(simple)) <= {"multiply", "transpose", "reshape"}
    given = [np.random.default_rng(0).standard_normal(s).astype("float32") for s in (left, right)]
    found = [relay.create_executor("debug", m).evaluate()(*given).numpy() for m in (mod, simple)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("channels", "filters", "groups"), [(1, 5, 1), (4, 4, 4)])
def test_convolutions_of_one_channel_and_one_place_are_products(channels: int, filters: int, groups: int) -> None:
    x, w = relay.var("x", shape=(2, channels, 3, 4)), relay.var("w", shape=(filters, 1, 1, 1))
    given = [
        np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((2, channels, 3, 4), (filters, 1, 1, 1))
    ]
    assert set(simplified(relay.nn.conv2d(x, w, groups=groups), x=given[0], w=given[1])) == {"multiply", "reshape"}
    assert simplified(relay.nn.conv2d(x, w, groups=groups, strides=(2, 1)), x=given[0], w=given[1]) == {"nn.conv2d": 1}
