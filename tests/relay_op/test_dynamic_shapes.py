"""Shapes that are values: what exporters leave of them becomes static or symbolic, the rest is read by the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.ir import Op
from tilewright.relay.backend.vm.build import name_dimensions
from tilewright.relay.functor import post_order
from tilewright.support.errors import DiagnosticError, OpNotImplemented, TVMError


def operators(mod: Any) -> list[str]:
    return [e.op.name for e in post_order(mod["main"]) if isinstance(e, relay.Call) and isinstance(e.op, Op)]


def run(mod: Any, *args: Any, kind: str = "vm") -> list[np.ndarray[Any, Any]]:
    found = relay.create_executor(kind, mod).evaluate()(*args)
    return [v.numpy() for v in (found if isinstance(found, (list, tuple)) or not hasattr(found, "numpy") else [found])]


def exported(x: relay.Var) -> relay.Expr:
    """What PyTorch exports for x.view(x.shape[0], -1, 2) * 1 and the like."""
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    parts = [relay.expand_dims(n, 0), relay.const(np.array([-1])), relay.const(np.array([2]))]
    return relay.reshape(x, relay.concatenate(parts, axis=0))


def test_exported_chain_of_known_shape_becomes_static() -> None:
    x = relay.var("x", shape=(3, 8))
    mod = relay.transform.DynamicToStatic()(tvm.IRModule.from_expr(relay.Function([x], exported(x))))
    assert operators(mod)[-1] == "reshape"
    assert mod["main"].ret_type.concrete_shape == (3, 4, 2)
    (got,) = run(mod, np.ones((3, 8), "float32"), kind="graph")
    assert got.shape == (3, 4, 2)


def test_exported_chain_of_dynamic_batch_becomes_symbolic() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    mod = name_dimensions(tvm.IRModule.from_expr(relay.Function([x], exported(x))))
    mod = relay.transform.DynamicToStatic()(mod)
    assert operators(mod)[-1] == "reshape"
    n, *rest = mod["main"].ret_type.shape
    assert n.same_as(mod["main"].params[0].checked_type.shape[0])
    assert [int(d) for d in rest] == [4, 2]


def test_unknown_element_is_the_one_that_reshape_infers() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.reshape(x, [n, 2, 4])))
    mod = relay.transform.DynamicToStatic()(mod)
    assert tuple(mod["main"].body.attrs.newshape) == (-1, 2, 4)


def test_only_one_extent_is_inferred() -> None:
    """Where newshape holds -1, an extent that is not known to be positive is none that could be -1 as well."""
    n = tvm.tir.SizeVar("n", "int64")
    x = relay.var("x", shape=(n * 2 - 3, 32))
    body = relay.reshape(x, (1, n * 2 - 3, -1, 8))
    found = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))["main"].ret_type
    analyzer = tvm.arith.Analyzer()
    assert all(analyzer.can_prove_equal(d, e) for d, e in zip(found.shape, (1, n * 2 - 3, 4, 8), strict=True))


@pytest.mark.parametrize("batch", [1, 5])
def test_dynamic_batch_runs_at_any_size(batch: int) -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    results = [
        exported(x),
        relay.zeros([n, 2], "int32"),
        relay.full(relay.const(2.5), [n * relay.const(2, "int64")]),
        relay.broadcast_to(relay.const(np.ones((1, 3), "float32")), [n, 3]),
        relay.tile(x, [n, 1]),
        relay.arange(n, dtype="int64"),
        relay.strided_slice(x, [0, 0], [n - relay.const(1, "int64"), 5]),
        relay.nn.pad(x, [[0, n], [0, 0]]),
        relay.one_hot(relay.const(np.array([0, 3])), relay.const(1.0), relay.const(0.0), n, -1, "float32"),
    ]
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(results)))
    value = np.arange(batch * 8, dtype="float32").reshape(batch, 8)
    for got, want in zip(run(mod, value), run(mod, value, kind="debug"), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3, 4, 3), (1, -1, 2), (0, 2, 6)])
def test_shape_is_an_input(shape: tuple[int, ...]) -> None:
    x, s = relay.var("x", shape=(relay.Any(), 12)), relay.var("s", shape=(3,), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, s], relay.reshape(x, s) + relay.const(1.0)))
    args = [np.arange(36, dtype="float32").reshape(3, 12), np.array(shape)]
    np.testing.assert_array_equal(run(mod, *args)[0], run(mod, *args, kind="debug")[0])


def test_number_of_best_is_an_input() -> None:
    x, k = relay.var("x", shape=(2, 100)), relay.var("k", shape=(), dtype="int32")
    mod = tvm.IRModule.from_expr(relay.Function([x, k], relay.topk(x, k, ret_type="values")))
    value = np.random.default_rng(0).standard_normal((2, 100)).astype("float32")
    for count in (1, 7, 100):
        (got,) = run(mod, value, np.array(count, "int32"))
        np.testing.assert_array_equal(got, np.sort(value)[:, ::-1][:, :count])


def test_bounds_of_a_slice_are_inputs() -> None:
    x = relay.var("x", shape=(relay.Any(), 6))
    b, e = relay.var("b", shape=(2,), dtype="int64"), relay.var("e", shape=(2,), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, b, e], relay.strided_slice(x, b, e)))
    value = np.arange(30, dtype="float32").reshape(5, 6)
    for begin, end in (((1, 2), (3, 5)), ((-3, 0), (-1, 100)), ((4, 4), (2, 2))):
        (got,) = run(mod, value, np.array(begin), np.array(end))
        np.testing.assert_array_equal(got, value[begin[0] : end[0], begin[1] : end[1]])


def test_floating_range() -> None:
    a, b, c = [relay.var(n, shape=()) for n in "abc"]
    mod = tvm.IRModule.from_expr(relay.Function([a, b, c], relay.arange(a, b, c)))
    for bounds in ((0.0, 2.0, 0.3), (5.0, 1.0, -1.5), (3.0, 1.0, 1.0)):
        (got,) = run(mod, *[np.array(v, "float32") for v in bounds])
        np.testing.assert_allclose(got, np.arange(*bounds), rtol=1e-6)


def test_graphs_say_what_to_do() -> None:
    x, s = relay.var("x", shape=(4,)), relay.var("s", shape=(2,), dtype="int64")
    with pytest.raises(TVMError, match="dimension that is not known|no kernel of its own"):
        relay.build(tvm.IRModule.from_expr(relay.Function([x, s], relay.reshape(x, s))), target="llvm")
    with pytest.raises(OpNotImplemented, match=r"the values of newshape decide its shape\. Make them constants"):
        relay.op.find_card("dyn.reshape")().compute()


def test_constant_arguments_are_asked_for() -> None:
    x, axis = relay.var("x", shape=(4, 5)), relay.var("axis", shape=(), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, axis], relay.expand_dims(x, axis)))
    with pytest.raises(TVMError, match="dyn.expand_dims: the axis must be constant"):
        relay.vm.compile(mod, "llvm")
    n = relay.var("n", shape=(relay.Any(),), dtype="int64")
    with pytest.raises(DiagnosticError, match="the number of elements of newshape must be known"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, n], relay.reshape(x, n))))


def test_places_of_what_is_not_zero() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = tvm.IRModule.from_expr(
        relay.Function([x], relay.argwhere(relay.greater(x, relay.const(0.0))) * relay.const(2))
    )
    for rows in (1, 4):
        value = np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
        np.testing.assert_array_equal(run(mod, value)[0], np.argwhere(value > 0) * 2)


def test_different_elements_and_what_is_looked_up_with_them() -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype="int64")
    kinds, _, which, number, counts = relay.unique(x, return_counts=True)
    body = relay.Tuple([kinds + relay.const(1, "int64"), relay.take(counts, which), number])
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    for count in (1, 9, 200):
        value = np.random.default_rng(count).integers(0, 7, count)
        found, inverse = np.unique(value, return_inverse=True)
        got = run(mod, value)
        np.testing.assert_array_equal(got[0], found + 1)
        np.testing.assert_array_equal(got[1], np.bincount(inverse.reshape(-1))[inverse.reshape(-1)])
        assert got[2][0] == len(found)


def test_as_many_boxes_as_suppression_leaves() -> None:
    """What importers make of ONNX's NonMaxSuppression."""
    boxes, scores = relay.var("boxes", shape=(1, relay.Any(), 4)), relay.var("scores", shape=(1, 2, relay.Any()))
    rows, number = relay.vision.all_class_non_max_suppression(boxes, scores, 3, 0.5, 0.1)
    end = relay.concatenate([number, relay.const(np.array([3]))], axis=0)
    kept = relay.strided_slice(rows, relay.const(np.array([0, 0])), end)
    mod = tvm.IRModule.from_expr(relay.Function([boxes, scores], kept))
    rng = np.random.default_rng(3)
    for count in (1, 12):
        corner = rng.uniform(0, 5, (1, count, 2))
        box = np.concatenate([corner, corner + rng.uniform(1, 4, (1, count, 2))], 2).astype("float32")
        score = rng.uniform(0, 1, (1, 2, count)).astype("float32")
        got, want = run(mod, box, score)[0], run(mod, box, score, kind="debug")[0]
        np.testing.assert_array_equal(got, want)


def test_counted_results_in_a_graph_say_what_to_do() -> None:
    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.argwhere(x)))
    with pytest.raises(TVMError, match="dimension that is not known|virtual machine"):
        relay.build(mod, target="llvm")


def test_order_of_elements_beside_each_other() -> None:
    """NaN comes last, zeros of both signs are equal, equal elements keep their order: in short lines and long ones."""
    rng = np.random.default_rng(0)
    for count in (20, 300):
        value = rng.choice(np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan], "float32"), count)
        x = relay.var("x", shape=(count,))
        mod = tvm.IRModule.from_expr(
            relay.Function([x], relay.Tuple([relay.argsort(x), relay.argsort(x, is_ascend=False)]))
        )
        up, down = run(mod, value, kind="graph")
        np.testing.assert_array_equal(up, np.argsort(value, kind="stable"))
        np.testing.assert_array_equal(value[down][::-1], value[up])
        for kind in ("int8", "uint8", "int64", "float64"):
            ints = rng.integers(-100 if kind[0] != "u" else 0, 100, (3, count)).astype(kind)
            y = relay.var("y", shape=(relay.Any(), relay.Any()), dtype=kind)
            mod = tvm.IRModule.from_expr(relay.Function([y], relay.argsort(y, is_ascend=False)))
            np.testing.assert_array_equal(run(mod, ints)[0], np.argsort(-ints.astype("float64"), kind="stable"))


def test_updates_outside_of_the_data_are_left_out() -> None:
    x, i = relay.var("x", shape=(3,)), relay.var("i", shape=(4,), dtype="int64")
    u = relay.const(np.ones(4, "float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x, i], relay.scatter_elements(x, i, u, 0, "add")))
    (got,) = run(mod, np.zeros(3, "float32"), np.array([0, 3, -1, -4]), kind="graph")
    np.testing.assert_array_equal(got, [1, 0, 1])


def test_random_numbers_are_uniform_and_normal() -> None:
    key = relay.random.threefry_key(3)
    _, flat = relay.random.uniform(key, (20000,), low=-1.0, high=3.0)
    _, bell = relay.random.normal(key, (20000,), mean=2.0, scale=0.5)
    left, right = relay.random.threefry_split(key)
    _, first = relay.random.threefry_generate(left, (8,))
    _, second = relay.random.threefry_generate(right, (8,))
    _, drawn = relay.random.multinomial(key, relay.const(np.array([0.1, 0.6, 0.3], "float32")), 20000)
    mod = tvm.IRModule.from_expr(relay.Function([], relay.Tuple([flat, bell, first, second, drawn])))
    u, n, a, b, d = run(mod, kind="graph")
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.03 and abs(u.std() - 4 / 12**0.5) < 0.03
    assert abs(n.mean() - 2) < 0.02 and abs(n.std() - 0.5) < 0.01
    assert not set(a) & set(b)
    np.testing.assert_allclose(np.bincount(d) / 20000, [0.1, 0.6, 0.3], atol=0.01)


def test_einsum_is_a_product_of_batches() -> None:
    a, b, c = relay.var("a", shape=(2, 3, 4, 8)), relay.var("b", shape=(2, 5, 4, 8)), relay.var("c", shape=(8, 6))
    body = relay.einsum([a, b, c], "bqhd,bkhd,de->eqb")
    mod = tvm.IRModule.from_expr(relay.Function([a, b], relay.einsum([a, b], "bqhd,bkhd->bhqk")))
    simple = relay.transform.SimplifyExpr()(mod)
    assert "nn.batch_matmul" in operators(simple)
    assert "einsum" not in operators(simple)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((2, 3, 4, 8), (2, 5, 4, 8), (8, 6))]
    (got,) = run(mod, *arrays[:2], kind="graph")
    np.testing.assert_allclose(got, np.einsum("bqhd,bkhd->bhqk", *arrays[:2]), rtol=1e-4, atol=1e-4)
    (got,) = run(tvm.IRModule.from_expr(relay.Function([a, b, c], body)), *arrays, kind="graph")
    np.testing.assert_allclose(got, np.einsum("bqhd,bkhd,de->eqb", *arrays), rtol=1e-3, atol=1e-3)


def test_einsum_of_dynamic_dimensions() -> None:
    a, b = [relay.var(n, shape=(relay.Any(), relay.Any(), 4)) for n in "ab"]
    mod = tvm.IRModule.from_expr(relay.Function([a, b], relay.einsum([a, b], "bqd,bkd->bqk")))
    rng = np.random.default_rng(0)
    for n, q, k in ((1, 2, 5), (3, 1, 1)):
        x, y = rng.standard_normal((n, q, 4)).astype("float32"), rng.standard_normal((n, k, 4)).astype("float32")
        np.testing.assert_allclose(run(mod, x, y)[0], np.einsum("bqd,bkd->bqk", x, y), rtol=1e-4, atol=1e-5)


def test_weights_of_unknown_channels_are_refused_where_they_are_compiled() -> None:
    x, w = relay.var("x", shape=(2, 4, 8)), relay.var("w", shape=(4, relay.Any(), 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.conv1d(x, w, groups=4, kernel_size=3)))
    with pytest.raises(TVMError, match="the weights' extents must be known when they are compiled, but they are"):
        relay.vm.compile(mod, "llvm")
