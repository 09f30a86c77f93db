"""CombineSmallProducts: products of the same data that are over when threads have started become one, where that leaves fewer kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import assert_same, evaluate
from tests.slow import seeds
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs

ROWS, WIDTH = 6, 24


def values(*shape: int, seed: int = 0, dtype: str = "float32") -> relay.Constant:
    found = np.random.default_rng(seed).standard_normal(shape)
    return relay.const((found * 40).astype(dtype) if "int" in dtype else found.astype(dtype))


def data(*shape: int) -> relay.Var:
    return relay.var("x", shape=shape or (ROWS, WIDTH))


def moved(e: relay.Expr) -> relay.Expr:
    """A reader that takes a slice in place."""
    return relay.transpose(e)


def joined(*results: Any) -> dict[str, int]:
    """How often each operator is called after the pass, which changes neither values nor types of the results."""
    mod = transform.InferType()(IRModule.from_expr(results[0] if len(results) == 1 else relay.Tuple(results)))
    after = transform.CombineSmallProducts()(mod)
    assert after["main"].ret_type == mod["main"].ret_type
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal(p.checked_type.concrete_shape).astype(p.checked_type.dtype) for p in mod["main"].params
    ]
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    return list_op_freqs(after)


def layers(x: relay.Expr, units: tuple[int, ...], inner: int = WIDTH) -> list[relay.Expr]:
    """Dense layers of the same data, each with a bias of its own."""
    return [relay.nn.dense(x, values(n, inner, seed=i)) + values(n, seed=9 + i) for i, n in enumerate(units)]


@pytest.mark.parametrize("units", [(8, 8, 8), (8, 3, 5), (16, 1)])
def test_products_with_their_biases(units: tuple[int, ...]) -> None:
    """One product and one sum, whose operands are made at once; results stay in their order."""
    got = joined(*[moved(e) for e in layers(data(), units)])
    assert got == {"nn.dense": 1, "add": 1, "strided_slice": len(units), "transpose": len(units)}


@pytest.mark.parametrize("transpose_b", [True, False])
def test_products_of_matrices_of_either_kind(transpose_b: bool) -> None:
    x = data(2, 3, WIDTH)
    sides = [values(*((n, WIDTH) if transpose_b else (WIDTH, n)), seed=n) for n in (4, 7)]
    got = joined(*[relay.transpose(relay.nn.matmul(x, w, transpose_b=transpose_b), (1, 0, 2)) for w in sides])
    assert got == {"nn.matmul": 1, "strided_slice": 2, "transpose": 2}


def test_products_of_other_kinds_stay_apart() -> None:
    x, y = data(), relay.var("y", shape=(ROWS, WIDTH))
    apart = [
        relay.nn.dense(x, values(8, WIDTH)),
        relay.nn.matmul(x, values(WIDTH, 8)),
        relay.nn.dense(y, values(8, WIDTH)),
        relay.nn.dense(x, relay.var("w", shape=(8, WIDTH))),
        relay.nn.matmul(x, values(ROWS, 8), transpose_a=True),
    ]
    assert joined(*[moved(e) for e in apart])["nn.dense"] == 3


def test_large_products_stay_apart() -> None:
    for rows, count in ((64, 1), (65, 2)):
        x = data(rows, 128)
        assert joined(*[moved(relay.nn.dense(x, values(64, 128, seed=i))) for i in (1, 2)])["nn.dense"] == count


def test_what_would_be_copied_stays_apart() -> None:
    """A piece that is a result, or that a product reads, needs a kernel that copies it: three of one leave no fewer."""
    x, w = data(), values(5, 8)
    q, k, v = layers(x, (8, 8, 8))
    assert joined(q, moved(k), moved(v))["nn.dense"] == 1
    assert joined(q, k, moved(v))["nn.dense"] == 3
    assert joined(relay.nn.dense(q, w), k, moved(v))["nn.dense"] == 4
    assert joined(moved(q) + moved(k), k, moved(v))["nn.dense"] == 1


def test_what_follows_differently_stays_an_epilogue() -> None:
    x = data()
    q, k, v = layers(x, (8, 8, 8))
    assert joined(moved(relay.nn.relu(q)), moved(relay.tanh(k)), moved(v))["nn.dense"] == 3
    alike = joined(*[moved(relay.nn.relu(e)) for e in (q, k, v)])
    assert alike["nn.dense"] == alike["nn.relu"] == 1


def test_readers_through_views_and_tuples() -> None:
    x = data()
    q, k = (relay.reshape(e, (1, ROWS, 2, 4)) for e in layers(x, (8, 8)))
    past = relay.var("past", shape=(1, 3, 2, 4))
    assert joined(relay.transpose(q, (0, 2, 1, 3)), relay.concatenate([past, k], 1))["nn.dense"] == 1


def test_shared_weights() -> None:
    x, w = data(), values(8, WIDTH)
    y = relay.nn.dense(x, w)
    again = relay.nn.dense(x, values(8, WIDTH, seed=3))
    assert joined(moved(y), moved(again), relay.nn.dense(relay.exp(x), w))["nn.dense"] == 2


def test_groups_that_follow_each_other() -> None:
    x: Any = data(8, 8)
    for _ in range(3):
        q, k, v = layers(x, (8, 8, 8), 8)
        x = relay.tanh(moved(q) + moved(k) + moved(v))
    assert joined(x)["nn.dense"] == 3


def test_dynamic_rows_stay_apart() -> None:
    x = relay.var("x", shape=(relay.Any(), WIDTH))
    mod = IRModule.from_expr(relay.Tuple([moved(e) for e in layers(x, (8, 8))]))
    assert list_op_freqs(transform.CombineSmallProducts()(mod))["nn.dense"] == 2


def test_sums_of_bytes() -> None:
    x = relay.var("x", shape=(ROWS, WIDTH), dtype="int8")
    sides = [values(n, WIDTH, seed=n, dtype="int8") for n in (4, 8)]
    got = joined(*[moved(relay.nn.dense(x, w, out_dtype="int32")) for w in sides])
    assert got == {"nn.dense": 1, "strided_slice": 2, "transpose": 2}


def attention(x: relay.Expr, rng: np.random.Generator, width: int, heads: int, rows: int) -> relay.Expr:
    """A layer of self-attention, of units and operators that differ from seed to seed."""
    alike = rng.random() < 0.5
    pieces = []
    for _ in range(3):
        w = relay.const(rng.standard_normal((width, width)).astype("float32") / 4)
        p = relay.nn.dense(x, w)
        if alike or rng.random() < 0.7:
            p = relay.nn.bias_add(p, relay.const(rng.standard_normal(width).astype("float32")), -1)
        if not alike and rng.random() < 0.3:
            p = p * relay.const(np.float32(0.5))
        pieces.append(relay.transpose(relay.reshape(p, (rows, heads, width // heads)), (1, 0, 2)))
    q, k, v = pieces
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k))
    mixed = relay.nn.batch_matmul(scores, v, transpose_b=False)
    return relay.tanh(relay.reshape(relay.transpose(mixed, (1, 0, 2)), (rows, width)) + x)


@pytest.mark.parametrize("seed", seeds(8, 4))
def test_builds_of_attention(seed: int) -> None:
    """Compiled with the pass and without, and beside the interpreter; products in bfloat16, too."""
    rng = np.random.default_rng(seed)
    rows, heads = int(rng.choice([1, 3, 16])), int(rng.choice([1, 2, 4]))
    width = heads * int(rng.choice([5, 8, 16]))
    y: relay.Expr = relay.var("x", shape=(rows, width))
    results = []
    for _ in range(2):
        y = attention(y, rng, width, heads, rows)
        results.append(y)
    mod, given = IRModule.from_expr(relay.Tuple(results)), rng.standard_normal((rows, width)).astype("float32")
    for precision in ("float32", "bfloat16"):
        apart, one = (compiled(mod, given, precision, without) for without in (["CombineSmallProducts"], []))
        for a, b in zip(apart, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 if precision == "float32" else 5e-2)
        if precision == "float32":
            for a, b in zip(one, evaluate(mod, [given]), strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def compiled(mod: IRModule, given: np.ndarray, precision: str, without: list[str]) -> list[np.ndarray]:
    with PassContext(opt_level=3, disabled_pass=without, config={"relay.build.precision": precision}):
        executor = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    executor.run(x=given)
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
