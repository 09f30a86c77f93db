"""Adjoints, sparse arithmetic, counts and serialised examples of TensorFlow without TensorFlow: known answers."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.frontend.tensorflow.test_operators import X, constant, fill, graph_of, run
from tests.frontend.tensorflow.test_tables_and_matrices import answers, text_constant, text_graph
from tilewright import relay
from tilewright.formats.tensorflow_messages import message
from tilewright.relay.frontend import encode_strings
from tilewright.relay.frontend.tensorflow import from_tensorflow
from tilewright.support.errors import OpNotImplemented, TVMError


@pytest.mark.parametrize(
    "op, wanted",
    [
        ("ReluGrad", lambda g, x: g * (x > 0)),
        ("Relu6Grad", lambda g, x: g * ((x > 0) & (x < 6))),
        ("LeakyReluGrad", lambda g, x: np.where(x > 0, g, 0.2 * g)),
        ("EluGrad", lambda g, y: np.where(y < 0, g * (y + 1), g)),
        ("SoftsignGrad", lambda g, x: g / (1 + np.abs(x)) ** 2),
        ("SigmoidGrad", lambda y, g: g * y * (1 - y)),
        ("TanhGrad", lambda y, g: g * (1 - y * y)),
        ("SqrtGrad", lambda y, g: g / 2 / y),
        ("RsqrtGrad", lambda y, g: -g / 2 * y**3),
    ],
)
def test_adjoints(op: str, wanted: Any) -> None:
    other = np.roll(X, 1) + 0.5
    graph = graph_of(constant("other", other, "float32"), (op, "y", ("x", "other")))
    np.testing.assert_allclose(run(graph, X + 0.25)[0], wanted(X + 0.25, other), rtol=1e-5, atol=1e-6)


def test_adjoints_of_slices() -> None:
    graph = graph_of(
        constant("shape", [3, 4]), constant("begin", [1, 0]), constant("end", [3, 4]), constant("step", [1, 2]),
        ("StridedSliceGrad", "y", ("shape", "begin", "end", "step", "x")), shape=(2, 2),
    )  # fmt: skip
    found = run(graph, np.array([[1.0, 2], [3, 4]], "float32"))[0]
    assert found.tolist() == [[0, 0, 0, 0], [1, 0, 2, 0], [3, 0, 4, 0]]


def test_axes_of_broadcasts() -> None:
    graph = graph_of(
        constant("a", [3, 1, 4]), constant("b", [2, 4]), ("BroadcastGradientArgs", "r", ("a", "b")),
        ("Add", "y", ("r", "r")), ("Add", "z", ("r:1", "r:1")), ("NoOp", "n", ("x",)),
    )  # fmt: skip
    mod, _ = from_tensorflow(graph, outputs=["y", "z"])
    made = relay.create_executor("vm", mod=mod).evaluate()()
    assert [m.numpy().tolist() for m in made] == [[2], [0]]


def sparse(name: str, places: Any, values: Any, shape: Any) -> list[tuple[Any, ...]]:
    return [
        constant(f"{name}_at", places, "int64"), constant(f"{name}_values", values, "float32"), constant(f"{name}_shape", shape, "int64"),
    ]  # fmt: skip


A = sparse("a", [[0, 1], [2, 0], [2, 3]], [1, 2, 3], [3, 4])
PARTS = ("a_at", "a_values", "a_shape")


def test_sparse_arithmetic() -> None:
    graph = graph_of(
        *A, constant("zero", 0, "float32"), constant("one", [1]), constant("from", [1, 0], "int64"), constant("size", [2, 2], "int64"),
        ("SparseAdd", "twice", (*PARTS, *PARTS, "zero")), ("SparseReduceSum", "rows", (*PARTS, "one")),
        ("SparseTensorDenseAdd", "dense", (*PARTS, "x")), ("SparseDenseCwiseMul", "scaled", (*PARTS, "x")),
        ("SparseSlice", "part", (*PARTS, "from", "size")), ("SparseSoftmax", "shares", PARTS),
    )  # fmt: skip
    dense = np.zeros((3, 4), "float32")
    dense[[0, 2, 2], [1, 0, 3]] = 1, 2, 3
    names = ["twice:1", "rows", "dense", "scaled", "part", "part:1", "part:2", "shares"]
    twice, rows, added, scaled, at, values, size, shares = run(graph, X, outputs=names)
    assert (twice.tolist(), rows.tolist()) == ([2, 4, 6], [1, 0, 5])
    np.testing.assert_allclose(added, dense + X, rtol=1e-6)
    np.testing.assert_allclose(scaled, (dense * X)[[0, 2, 2], [1, 0, 3]], rtol=1e-6)
    assert (at.tolist(), values.tolist(), size.tolist()) == ([[1, 0]], [2], [2, 2])
    np.testing.assert_allclose(shares, [1, 1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-5)


def test_counts() -> None:
    graph = graph_of(
        constant("splits", [0, 3, 3, 5], "int64"), constant("values", [1, 5, 5, 2, 0]), constant("size", 6),
        constant("none", [], "float32"), ("RaggedBincount", "counts", ("splits", "values", "size", "none")),
        ("RaggedCountSparseOutput", "pairs", ("splits", "values", "none")),
        ("NoOp", "n", ("x",)),
    )  # fmt: skip
    mod, params = from_tensorflow(graph, outputs=["counts", "pairs", "pairs:1", "pairs:2"])
    counts, at, many, size = [m.numpy().tolist() for m in relay.create_executor("vm", mod=mod).evaluate()(**params)]
    assert counts == [[0, 1, 0, 0, 0, 2], [0] * 6, [1, 0, 1, 0, 0, 0]]
    assert (at, many, size) == ([[0, 1], [0, 5], [2, 0], [2, 2]], [1, 2, 1, 1], [3, 6])


def example(**features: Any) -> bytes:
    made = message("Example")()
    for key, values in features.items():
        held = made.features.feature[key]
        if isinstance(values[0], bytes):
            held.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            held.float_list.value.extend(values)
        else:
            held.int64_list.value.extend(values)
    return made.SerializeToString()  # type: ignore[no-any-return]


def example_graph() -> Any:
    graph = text_graph(shape=(2,))
    for name, values in (("none", ()), ("sparse", ("n",)), ("dense", ("f",))):
        text_constant(graph, name, *values)
    node = graph.node.add(op="Const", name="default")
    fill(node.attr["dtype"], "float32")
    fill(node.attr["value"], np.array([9.0], "float32"))
    node = graph.node.add(op="ParseExampleV2", name="parsed", input=["x", "none", "sparse", "dense", "none", "default"])
    fill(node.attr["num_sparse"], 1)
    node.attr["sparse_types"].list.type.append(9)
    node.attr["Tdense"].list.type.append(1)
    node.attr["dense_shapes"].list.shape.add().dim.add(size=1)
    return graph


def test_examples() -> None:
    strings = [example(f=[1.5], n=[3, 4]), example(n=[5])]
    found = answers(example_graph(), strings, outputs=["parsed", "parsed:1", "parsed:2", "parsed:3"])
    assert found == [[[0, 0], [0, 1], [1, 0]], [3, 4, 5], [2, 2], [[1.5], [9.0]]]
    with pytest.raises(TVMError, match="dense 'parsed': the feature 'f' has a int64_list; it takes a float_list"):
        answers(example_graph(), [example(f=[1]), strings[1]], outputs=["parsed:3"])
    with pytest.raises(TVMError, match="the string is not a tf.Example"):
        answers(example_graph(), [b"\xff\xff", strings[1]], outputs=["parsed:3"])


def test_lines() -> None:
    graph = text_graph(shape=(2,))
    text_constant(graph, "word", "-")
    node = graph.node.add(op="Const", name="number")
    fill(node.attr["dtype"], "int32")
    fill(node.attr["value"], np.array([7], "int32"))
    node = graph.node.add(op="DecodeCSV", name="csv", input=["x", "word", "number"])
    node.attr["OUT_TYPE"].list.type.extend([7, 3])
    assert answers(graph, ['"a,b",3', ","], outputs=["csv", "csv:1"]) == [["a,b", "-"], [3, 7]]
    with pytest.raises(TVMError, match="csv 'csv': the record 1 has 3 fields, not 2"):
        answers(graph, ["a,1", "a,b,c"], outputs=["csv"])


def test_compressed_texts() -> None:
    graph = text_graph(("DecodeCompressed", "plain", ("x",), {"compression_type": "ZLIB"}), shape=(1,))
    assert answers(graph, [zlib.compress(b"hello")]) == [["hello"]]
    with pytest.raises(TVMError, match="DecodeCompressed 'plain': the string is not compressed this way"):
        answers(graph, ["hello"])
    graph = text_graph(("DecodeCompressed", "plain", ("x",), {"compression_type": "ZSTD"}), shape=(1,))
    with pytest.raises(OpNotImplemented, match="its compression_type is 'ZSTD'; supported: ZLIB and GZIP"):
        from_tensorflow(graph)


def test_encoded_once() -> None:
    assert encode_strings([b"\xff"]).tolist() == encode_strings(["\udcff"]).tolist()
