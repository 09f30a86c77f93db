"""Indices that lie outside of their tensor: gathers take the element at the end, scatters leave the update out, and nothing beside a
tensor is read or written. Every executor answers as the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tvm
from tests.relay_vm.executors import run_both, same
from tilewright import relay, te, tir, topi
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.relay.cards.card import TypeRuleError

FAR = [10**12, -(10**12), 2**31 - 1, -(2**31), 4, -5]
DATA = np.arange(12, dtype="float32").reshape(4, 3) + 1
UPDATES = np.arange(24, dtype="float32").reshape(8, 3) * 0.5 - 3
ROWS = np.array([[*FAR, 1, -1]] * 3).T.copy()
REDUCTIONS = ["none", "add", "mul", "min", "max"]


def put(reduction: str, places: Any) -> np.ndarray:
    """DATA with those updates (place in DATA, value) that fall on it."""
    found = DATA.copy()
    for place, value in places:
        old = found[place]
        found[place] = {
            "none": value,
            "add": old + value,
            "mul": old * value,
            "min": min(old, value),
            "max": max(old, value),
        }[reduction]
    return found


def answers(op: str, inputs: dict[str, np.ndarray], **attributes: Any) -> np.ndarray:
    """What the interpreter, the virtual machine and the graph executor all answer for one ONNX node."""
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    given = [helper.make_tensor_value_info(k, kinds[v.dtype.name], v.shape) for k, v in inputs.items()]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    mod, params = relay.frontend.from_onnx(onnx.shape_inference.infer_shapes(model))
    want = run_both(mod, *inputs.values()).numpy()
    executor = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    executor.run(**inputs)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), want)
    return np.asarray(want)


def test_gather_elements() -> None:
    found = answers("GatherElements", {"x": DATA, "i": ROWS})
    np.testing.assert_array_equal(found, DATA[[3, 0, 3, 0, 3, 0, 1, 3]])


def test_gather_nd() -> None:
    found = answers("GatherND", {"x": DATA, "i": np.array([[f, -f] for f in FAR])})
    np.testing.assert_array_equal(found, [10, 3, 10, 3, 10, 3])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_elements(reduction: str) -> None:
    found = answers("ScatterElements", {"x": DATA, "i": ROWS, "u": UPDATES}, reduction=reduction)
    np.testing.assert_array_equal(
        found, put(reduction, [((r, c), UPDATES[k, c]) for k, r in ((6, 1), (7, 3)) for c in range(3)])
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_nd(reduction: str) -> None:
    found = answers("ScatterND", {"x": DATA, "i": ROWS[:, :1].copy(), "u": UPDATES}, reduction=reduction)
    np.testing.assert_array_equal(
        found, put(reduction, [((r, c), UPDATES[k, c]) for k, r in ((6, 1), (7, 3)) for c in range(3)])
    )
    pairs = np.array([[1, 3], [1, -4], [4, 0], [-5, 0], [3, -1], [10**12, 0], [0, -(10**12)], [-4, 2]])
    found = answers("ScatterND", {"x": DATA, "i": pairs, "u": UPDATES[:, 0].copy()}, reduction=reduction)
    np.testing.assert_array_equal(found, put(reduction, [((3, 2), UPDATES[4, 0]), ((0, 2), UPDATES[7, 0])]))


@pytest.mark.parametrize("mode", ["update", "add", "mul", "min", "max", "mean"])
def test_no_scatter_touches_what_is_beside(mode: str) -> None:
    """The interpreter of programs refuses what is outside of a buffer."""
    data, updates = te.placeholder((4, 3), "float32", "data"), te.placeholder((8, 3), "float32", "updates")
    at, row = te.placeholder((8, 3), "int64", "at"), te.placeholder((1, 8), "int64", "row")
    for indices, made in (
        (at, topi.scatter_elements(data, at, updates, 0, mode)),
        (row, topi.scatter_nd(data, row, updates, mode)),
    ):
        given = ROWS if indices is at else ROWS[:, :1].T.copy()
        interp.run(
            te.create_prim_func([data, indices, updates, made]), [DATA, given, UPDATES, np.zeros((4, 3), "float32")]
        )


def test_more_indices_than_data_along_other_axes() -> None:
    x, i, u = (
        relay.var(k, shape=s, dtype=t)
        for k, s, t in (("x", (2, 3), "float32"), ("i", (5, 3), "int64"), ("u", (5, 3), "float32"))
    )
    for call in (lambda: relay.scatter_elements(x, i, u, axis=1), lambda: relay.gather(x, 1, i)):
        with pytest.raises(
            (TypeRuleError, tvm.TVMError),
            match="indices must not be more than data along an axis other than 1, but axis 0 has 5 and 2",
        ):
            relay.transform.InferType()(relay.IRModule.from_expr(call()))


def test_more_dynamic_indices_than_data_along_other_axes() -> None:
    n, m = tir.SizeVar("n", "int64"), tir.SizeVar("m", "int64")
    x = relay.var("x", relay.TensorType((n, 3), "float32"))
    i = relay.var("i", relay.TensorType((m, 3), "int64"))
    u = relay.var("u", relay.TensorType((m, 3), "float32"))
    at = np.array([[0, 2, 1]] * 8)
    scattered = run_both(
        relay.IRModule.from_expr(relay.Function([x, i, u], relay.scatter_elements(x, i, u, axis=1))), DATA, at, UPDATES
    )
    np.testing.assert_array_equal(scattered.numpy(), UPDATES[:4][:, [0, 2, 1]])
    gathered = run_both(relay.IRModule.from_expr(relay.Function([x, i], relay.gather(x, 1, i))), DATA, at)
    np.testing.assert_array_equal(gathered.numpy(), DATA[[0, 1, 2, 3, 3, 3, 3, 3]][:, [0, 2, 1]])


def test_permutations_that_are_none() -> None:
    x = relay.var("x", shape=(5,), dtype="int32")
    given = np.array([3, 9, -1, 0, 2**30], "int32")
    found = run_both(relay.IRModule.from_expr(relay.Function([x], relay.invert_permutation(x))), given)
    assert (found.numpy()[3], found.numpy()[0]) == (0, 3)


def test_advanced_indices() -> None:
    x, i = relay.var("x", shape=(4, 3)), relay.var("i", shape=(6,), dtype="int64")
    j = relay.var("j", shape=(1,), dtype="int32")
    mod = relay.IRModule.from_expr(relay.Function([x, i, j], relay.adv_index([x, i, j])))
    np.testing.assert_array_equal(
        run_both(mod, DATA, np.array(FAR), np.array([-3], "int32")).numpy(), [10, 1, 10, 1, 10, 1]
    )
    np.testing.assert_array_equal(
        run_both(mod, DATA, np.array([0, 1, 2, 3, -1, -4]), np.array([5], "int32")).numpy(), [3, 6, 9, 12, 12, 3]
    )


def both_kinds(call: Any, *given: np.ndarray) -> Any:
    """What the interpreter, the virtual machine and ahead-of-time code all answer, for inputs of known sizes."""
    params = [relay.var(f"p{k}", shape=a.shape, dtype=a.dtype.name) for k, a in enumerate(given)]
    mod = relay.IRModule.from_expr(relay.Function(params, call(*params)))
    want = run_both(mod, *given)
    same(want, relay.create_executor("aot", mod).evaluate()(*given))
    return want


WRONG_BOUNDS = [
    [0, 2, 3, 4],
    [0, 9, -4, 2**31 - 1],
    [-(2**31), 2, 1, 4],
    [2**31 - 1, -7, 0, 4],
    [4, 3, 2, 1],
    [0, 4, 0, 4],
]


@pytest.mark.parametrize("bounds", WRONG_BOUNDS)
def test_sparse_matrices_that_are_none(bounds: list[int]) -> None:
    """Entries that there are not, and those beyond the columns, are left out."""
    entries = np.array([1.5, -2, 3, 0.5], "float32")
    columns, indptr = np.array([0, 2, 2**31 - 1, -1], "int32"), np.array(bounds, "int32")
    whole = np.zeros((3, 3), "float32")
    for row in range(3):
        for e in range(max(bounds[row], 0), min(bounds[row + 1], 4)):
            if 0 <= columns[e] < 3:
                whole[row, columns[e]] += entries[e]
    dense = np.arange(1, 7, dtype="float32").reshape(2, 3)
    square = np.arange(9, dtype="float32").reshape(3, 3)
    product = both_kinds(lambda d, *m: relay.nn.sparse_dense(d, m), dense, entries, columns, indptr)
    np.testing.assert_allclose(product.numpy(), dense @ whole.T)
    left = both_kinds(lambda d, *m: relay.nn.sparse_dense(d, m, True), dense, entries, columns, indptr)
    np.testing.assert_allclose(left.numpy(), whole @ dense.T)
    total = both_kinds(lambda d, *m: relay.nn.sparse_add(d, m), square, entries, columns, indptr)
    np.testing.assert_allclose(total.numpy(), square + whole)
    m = [
        relay.var(k, shape=a.shape, dtype=a.dtype.name) for k, a in zip("dip", (entries, columns, indptr), strict=True)
    ]
    transpose = relay.Function(m, relay.nn.sparse_transpose(m).tuple_value)
    turned = run_both(relay.IRModule.from_expr(transpose), entries, columns, indptr)
    again = both_kinds(lambda d, *m: relay.nn.sparse_add(d, m), 0 * square, *[t.numpy() for t in turned])
    if bounds != [0, 4, 0, 4]:  # whose rows name four entries twice: eight in room for four
        np.testing.assert_allclose(again.numpy(), whole.T)


def test_blocks_that_are_none() -> None:
    blocks = np.arange(1, 13, dtype="float32").reshape(2, 2, 3)
    dense = np.arange(12, dtype="float32").reshape(2, 6)
    for columns in ([1, 2], [-1, 0], [2**30, 1]):
        want = np.zeros((4, 6), "float32")
        for k, c in enumerate(columns):
            if 0 <= c < 2:
                want[2 * k : 2 * k + 2, 3 * c : 3 * c + 3] = blocks[k]
        given = (dense, blocks, np.array(columns, "int32"), np.array([0, 1, 5], "int32"))
        found = both_kinds(lambda d, *m: relay.nn.sparse_dense(d, m), *given)
        np.testing.assert_allclose(found.numpy(), dense @ want.T)


def test_sparse_matrices_of_dynamic_dimensions() -> None:
    """As many entries as the shorter of both lists has."""
    n, m = tir.SizeVar("n", "int64"), tir.SizeVar("m", "int64")
    x = relay.var("x", shape=(2, 3))
    parts = [relay.var(k, relay.TensorType((d,), t)) for k, d, t in (("d", n, "float32"), ("i", m, "int32"))]
    bounds = relay.var("p", shape=(3,), dtype="int32")
    mod = relay.IRModule.from_expr(relay.Function([x, *parts, bounds], relay.nn.sparse_add(x, (*parts, bounds))))
    given = [np.zeros((2, 3), "float32"), np.ones(4, "float32"), np.array([0, 2, 7, 1], "int32")]
    found = run_both(mod, *given, np.array([0, 2, 40], "int32"))
    np.testing.assert_array_equal(found.numpy(), [[1, 0, 1], [0, 1, 0]])
    with pytest.raises(ValueError, match="the sizes m and n must be equal"):
        relay.create_executor("vm", mod).evaluate()(given[0], given[1], given[2][:3], np.array([0, 2, 40], "int32"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "uint64"])
def test_indices_of_types_narrower_than_the_axis(dtype: str) -> None:
    data, at = np.arange(300, dtype="float32"), np.array([0, 3, 44, 120, 100], dtype)
    for mode in ("clip", "wrap", "fast"):
        np.testing.assert_array_equal(
            both_kinds(lambda x, i, m=mode: relay.take(x, i, 0, mode=m), data, at).numpy(), at
        )
    np.testing.assert_array_equal(both_kinds(lambda x, i: relay.gather(x, 0, i), data, at).numpy(), at)
    one, none = relay.const(1.0), relay.const(0.0)
    hot = both_kinds(lambda i: relay.one_hot(i, one, none, 300, -1, "float32"), at)
    np.testing.assert_array_equal(hot.numpy(), np.eye(300)[at.astype(int)])
    put = both_kinds(lambda x, i, u: relay.scatter_elements(x, i, u, 0), data, at, -data[:5])
    np.testing.assert_array_equal(put.numpy()[at.astype(int)], [0, -1, -2, -3, -4])
    assert (put.numpy() == data).sum() == 296


TAKES: list[tuple[Any, tuple[Any, ...]]] = [
    (lambda x, i: relay.take(x, i, axis=0), ("k",)),
    (lambda x, i: relay.take(x, i), ("k",)),
    (lambda x, i: relay.gather(x, 0, i), ("k", 3)),
    (lambda x, i: relay.gather_nd(x, i), (1, "k")),
    (lambda x, i: relay.adv_index([x, i]), ("k",)),
]


@pytest.mark.parametrize("taken, shape", TAKES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_axes_without_elements(taken: Any, shape: tuple[Any, ...], dynamic: bool) -> None:
    """Nothing may be taken of nothing, and nothing else."""
    data = np.zeros((0, 3), "float32")
    for count in (0, 2):
        indices = np.zeros([count if d == "k" else d for d in shape], "int64")
        at = [(tir.SizeVar("k", "int64") if dynamic else count) if d == "k" else d for d in shape]
        x = relay.var("x", relay.TensorType((tir.SizeVar("n", "int64") if dynamic else 0, 3), "float32"))
        i = relay.var("i", relay.TensorType(at, "int64"))
        mod = relay.IRModule.from_expr(relay.Function([x, i], taken(x, i)))
        for kind in ("debug", "vm") if dynamic else ("debug", "vm", "graph", "aot"):
            if not count:
                assert relay.create_executor(kind, mod).evaluate()(data, indices).numpy().size == 0
                continue
            with pytest.raises((tvm.TVMError, ValueError), match="element to take|must have those that are taken"):
                relay.create_executor(kind, mod).evaluate()(data, indices)
