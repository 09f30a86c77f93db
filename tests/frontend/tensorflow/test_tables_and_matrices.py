"""Rarer operators of TensorFlow without TensorFlow: strings, tables, dynamic dimensions, matrices, special functions; known answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tensorflow.test_operators import X, add, constant, fill, graph_of, run
from tilewright import relay
from tilewright.formats.tensorflow_messages import message
from tilewright.relay.frontend import decode_strings, encode_strings
from tilewright.relay.frontend.tensorflow import from_tensorflow
from tilewright.relay.frontend.tensorflow.ops.strings import pattern
from tilewright.runtime.host_functions import registry, special
from tilewright.support.errors import ModelError, OpNotImplemented, TVMError

Array = np.ndarray[Any, Any]
STRING = 7


def text_constant(graph: Any, name: str, *values: str | bytes, shape: Sequence[int] | None = None) -> str:
    node = graph.node.add(op="Const", name=name)
    node.attr["dtype"].type = STRING
    proto = node.attr["value"].tensor
    proto.dtype = STRING
    proto.string_val.extend([v.encode() if isinstance(v, str) else v for v in values])
    for d in (len(values),) if shape is None else shape:
        proto.tensor_shape.dim.add(size=d)
    return name


def text_graph(*nodes: tuple[Any, ...], shape: tuple[int, ...] = (3,)) -> Any:
    """A graph whose input x holds strings."""
    graph = message("GraphDef")()
    node = graph.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = STRING
    node.attr["shape"].shape.SetInParent()
    for d in shape:
        node.attr["shape"].shape.dim.add(size=d)
    text_constant(graph, "space", " ", shape=())
    for op, name, inputs, *attrs in nodes:
        add(graph.node, op, name, inputs, **(attrs[0] if attrs else {}))
    return graph


def answers(graph: Any, strings: Any, **options: Any) -> list[Any]:
    """What a graph makes of strings; its own strings as such."""
    mod, params = from_tensorflow(graph, **options)
    made = relay.create_executor("vm", mod=mod).evaluate()(encode_strings(strings), **params)
    arrays = [made.numpy()] if hasattr(made, "numpy") else [m.numpy() for m in made]
    names = mod["main"].attrs["output_tensor_names"]
    held = dict(mod["main"].attrs).get("string_outputs", ())
    return [decode_strings(a).tolist() if n in held else a.tolist() for n, a in zip(names, arrays, strict=True)]


WORDS = ["Hello, World", "naïve", "a-b"]


def test_texts_are_inputs_and_outputs() -> None:
    graph = text_graph(("StringLower", "y", ("x",), {"encoding": "utf-8"}), shape=(-1,))
    mod, _ = from_tensorflow(graph)
    main = mod["main"]
    assert (main.attrs["string_inputs"], main.attrs["string_outputs"]) == (("x",), ("y",))
    assert str(main.params[0].type_annotation) == "Tensor[(x_0,), int64]"
    assert answers(graph, WORDS) == [["hello, world", "naïve", "a-b"]]
    assert answers(graph, ["", "ÄB"]) == [["", "äb"]]


@pytest.mark.parametrize(
    ("op", "attrs", "wanted"),
    [
        ("StringUpper", {"encoding": ""}, ["HELLO, WORLD", "NAïVE", "A-B"]),
        ("StringUpper", {"encoding": "utf-8"}, ["HELLO, WORLD", "NAÏVE", "A-B"]),
        ("StringLength", {"unit": "BYTE"}, [12, 6, 3]),
        ("StringLength", {"unit": "UTF8_CHAR"}, [12, 5, 3]),
        (
            "StaticRegexReplace",
            {"pattern": "[[:punct:]]", "rewrite": "", "replace_global": True},
            ["Hello World", "naïve", "ab"],
        ),
        (
            "StaticRegexReplace",
            {"pattern": "l", "rewrite": "<\\0>", "replace_global": False},
            ["He<l>lo, World", "naïve", "a-b"],
        ),
        ("StaticRegexFullMatch", {"pattern": "\\w-\\w"}, [False, False, True]),
        ("EncodeBase64", {"pad": False}, ["SGVsbG8sIFdvcmxk", "bmHDr3Zl", "YS1i"]),
    ],
)
def test_of_each_text(op: str, attrs: dict[str, Any], wanted: list[Any]) -> None:
    assert answers(text_graph((op, "y", ("x",), attrs)), WORDS) == [wanted]


def test_split_texts() -> None:
    graph = text_graph(("StringSplitV2", "s", ("x", "space")), ("Identity", "p", ("s:1",)), shape=(-1,))
    places, parts, shape = answers(graph, ["the cat sat", "", "on  it"], outputs=["s:0", "p", "s:2"])
    assert places == [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1], [2, 2]]
    assert (parts, shape) == (["the", "cat", "sat", "", "on", "", "it"], [3, 3])


def test_joined_and_moved_texts() -> None:
    graph = text_graph(
        ("StringJoin", "j", ("x", "space", "x"), {"separator": "|"}),
        ("NotEqual", "n", ("x", "space")),
        constant("axis", [0]),
        ("ReverseV2", "r", ("x", "axis")),
        ("ReduceJoin", "all", ("x", "axis"), {"separator": "+"}),
        ("Add", "sum", ("x", "r")),
    )
    joined, differ, back, whole, both = answers(graph, ["a", " ", "b"], outputs=["j", "n", "r", "all", "sum"])
    assert joined == ["a| |a", " | | ", "b| |b"]
    assert (differ, back, whole, both) == ([True, False, True], ["b", " ", "a"], "a+ +b", ["ab", "  ", "ba"])


def test_texts_are_no_numbers() -> None:
    with pytest.raises(OpNotImplemented, match=r"Exp 'y': its input is a tensor of strings, but it takes numbers"):
        from_tensorflow(text_graph(("Exp", "y", ("x",))))


def test_patterns() -> None:
    assert pattern(r"a$").search("a\n") is None and pattern(r"[]$[:alpha:]-]+\z").fullmatch("]$aZ-")
    assert pattern(r"\Qa.b\E+").fullmatch("a.bb")
    with pytest.raises(OpNotImplemented, match=r"names a class of Unicode \(\\p\)"):
        pattern(r"\pL")
    with pytest.raises(OpNotImplemented, match="is none of Python's re"):
        pattern("a**")


def test_groups_that_a_pattern_does_not_have() -> None:
    graph = text_graph(("StaticRegexReplace", "y", ("x",), {"pattern": "(a)b", "rewrite": "\\\\2\\2"}))
    with pytest.raises(ModelError, match="names group 2, but its pattern '\\(a\\)b' has 1"):
        from_tensorflow(graph)


def test_errors_of_texts_name_the_node() -> None:
    graph = text_graph(("StringToNumber", "number", ("x",), {"out_type": "float32"}))
    assert answers(graph, ["1.5", "-2", "3e1"]) == [[1.5, -2.0, 30.0]]
    with pytest.raises(TVMError, match="StringToNumber 'number': could not convert string to float: 'one'"):
        answers(graph, ["one", "2", "3"])


# ---- tables


def table_graph(*values: tuple[Any, ...]) -> Any:
    graph = text_graph(
        ("HashTableV2", "table", (), {"key_dtype": "string", "value_dtype": "int64", "shared_name": "t"}),
        ("LookupTableFindV2", "y", ("table", "x", "default")),
        constant("default", -1, "int64"),
        *values,
    )
    text_constant(graph, "keys", "b", "a", "ü")
    return graph


def test_tables() -> None:
    fill_table = ("LookupTableImportV2", "fill", ("table", "keys", "values")), constant("values", [5, 6, 7], "int64")
    assert answers(table_graph(*fill_table), ["a", "c", "ü"], outputs=["y"]) == [[6, -1, 7]]
    with pytest.raises(OpNotImplemented, match="nothing in the model fills the table 't'"):
        from_tensorflow(table_graph(), outputs=["y"])


def saved(folder: Path, graph: Any, assets: dict[str, str]) -> Path:
    model = message("SavedModel")()
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(graph)
    sign = meta.signature_def["serving_default"]
    sign.inputs["x"].name, sign.inputs["x"].dtype = "x:0", STRING
    sign.inputs["x"].tensor_shape.dim.add(size=3)
    sign.outputs["y"].name = "y:0"
    for tensor, file in assets.items():
        entry = meta.asset_file_def.add(filename=file)
        entry.tensor_info.name = f"{tensor}:0"
    (folder / "assets").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return folder


def test_tables_of_files(tmp_path: Path) -> None:
    """Only files of the model's own folder are read."""
    nodes = (
        "InitializeTableFromTextFileV2",
        "fill",
        ("table", "file"),
        {"key_index": -2, "value_index": -1, "vocab_size": -1},
    )
    graph = table_graph(nodes)
    text_constant(graph, "file", str(tmp_path / "outside.txt"), shape=())
    (tmp_path / "outside.txt").write_text("a\nb\n")
    folder = saved(tmp_path / "own", graph, {"file": "words.txt"})
    (folder / "assets" / "words.txt").write_text("zero\nb\na\n")
    assert answers(folder, ["a", "b", "x"]) == [[2, 1, -1]]
    with pytest.raises(OpNotImplemented, match="nothing in the model fills the table"):
        from_tensorflow(saved(tmp_path / "other", graph, {}))
    far = saved(tmp_path / "far", graph, {"file": "../../outside.txt"})
    with pytest.raises(ModelError, match=r"far/assets/outside.txt: the file that a table of the model is read from"):
        from_tensorflow(far)


# ---- dynamic dimensions


def test_partitions_and_stitches() -> None:
    graph = graph_of(
        constant("which", [1, 0, 1]),
        ("DynamicPartition", "parts", ("x", "which"), {"num_partitions": 2}),
        constant("range", [0, 1, 2]),
        ("DynamicPartition", "places", ("range", "which"), {"num_partitions": 2}),
        ("DynamicStitch", "y", ("places", "places:1", "parts", "parts:1"), {"N": 2}),
    )
    found = run(graph, X, outputs=["parts", "parts:1", "y"])
    np.testing.assert_array_equal(found[0], X[[1]])
    np.testing.assert_array_equal(found[1], X[[0, 2]])
    np.testing.assert_array_equal(found[2], X)


def test_ragged_rows() -> None:
    graph = graph_of(
        constant("splits", [0, 2, 2, 3], "int64"),
        constant("shape", [-1, -1, 4], "int64"),
        constant("default", 7.0, "float32"),
        ("RaggedTensorToTensor", "y", ("shape", "x", "default", "splits")),
    )
    graph.node[-1].attr["row_partition_types"].list.s.append(b"ROW_SPLITS")
    want = np.full((3, 2, 4), 7.0, "float32")
    want[0], want[2, 0] = X[:2], X[2]
    np.testing.assert_array_equal(run(graph, X)[0], want)


def test_extents_of_what_the_data_decide() -> None:
    """Sizes of a tensor that is as long as its data say go on being computed with."""
    graph = graph_of(
        constant("zero", 0.0, "float32"),
        ("Greater", "flags", ("x", "zero")),
        ("Where", "at", ("flags",)),
        ("Shape", "shape", ("at",), {"out_type": "int32"}),
        ("Size", "size", ("at",), {"out_type": "int32"}),
        constant("one", 1, "int32"),
        ("Add", "more", ("size", "one")),
        ("Fill", "y", ("shape", "one")),
        ("Range", "r", ("one", "more", "one")),
    )
    at = np.argwhere(X > 0)
    found = run(graph, X, outputs=["shape", "more", "y", "r"])
    assert [found[0].tolist(), int(found[1])] == [list(at.shape), at.size + 1]
    np.testing.assert_array_equal(found[2], np.ones(at.shape))
    np.testing.assert_array_equal(found[3], np.arange(1, at.size + 1))


def test_segments() -> None:
    graph = graph_of(
        constant("which", [0, -1, 2]),
        constant("n", 4),
        ("UnsortedSegmentSum", "sum", ("x", "which", "n")),
        constant("sorted", [0, 0, 2]),
        ("SegmentMax", "max", ("x", "sorted")),
        ("SegmentProd", "prod", ("x", "sorted")),
        ("SegmentMean", "mean", ("x", "sorted")),
    )
    total, most, product, mean = run(graph, X, outputs=["sum", "max", "prod", "mean"])
    np.testing.assert_array_equal(total, [X[0], 0 * X[0], X[2], 0 * X[0]])
    np.testing.assert_array_equal(most, [X[:2].max(0), 0 * X[0], X[2]])
    np.testing.assert_allclose(product, [X[0] * X[1], np.ones(4), X[2]])
    np.testing.assert_allclose(mean, [X[:2].mean(0), 0 * X[0], X[2]])


def test_sparse() -> None:
    graph = graph_of(
        constant("at", [[0, 1], [2, 0]], "int64"),
        constant("values", [2.0, 3.0], "float32"),
        constant("size", [4, 3], "int64"),
        constant("default", 9.0, "float32"),
        ("SparseToDense", "dense", ("at", "size", "values", "default")),
        ("SparseTensorDenseMatMul", "product", ("at", "values", "size", "x")),
        ("SparseFillEmptyRows", "filled", ("at", "values", "size", "default")),
    )
    whole = np.zeros((4, 3), "float32")
    whole[0, 1], whole[2, 0] = 2, 3
    dense, product, places, values, empty = run(
        graph, X, outputs=["dense", "product", "filled", "filled:1", "filled:2"]
    )
    np.testing.assert_array_equal(dense, np.where(whole == 0, 9, whole))
    np.testing.assert_allclose(product, whole @ X)
    assert places.tolist() == [[0, 1], [1, 0], [2, 0], [3, 0]]
    assert (values.tolist(), empty.tolist()) == ([2.0, 9.0, 3.0, 9.0], [False, True, False, True])


def test_lists_that_differ() -> None:
    graph = graph_of(
        constant("a", [3, 1, 4, 1, 5]), constant("b", [1, 9]), ("ListDiff", "d", ("a", "b")), ("Neg", "y", ("x",))
    )
    out, places, _ = run(graph, X, outputs=["d", "d:1", "y"])
    assert (out.tolist(), places.tolist()) == ([3, 4, 5], [0, 2, 4])


# ---- matrices and functions


SQUARE = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], "float32")


def test_matrices() -> None:
    graph = graph_of(
        ("Cholesky", "half", ("x",)),
        ("MatrixInverse", "inverse", ("x",), {"adjoint": False}),
        ("MatrixDeterminant", "det", ("x",)),
        ("SelfAdjointEigV2", "eig", ("x",), {"compute_v": True}),
        ("Svd", "svd", ("x",), {"compute_uv": True, "full_matrices": False}),
        ("Qr", "qr", ("x",), {"full_matrices": False}),
        ("MatrixSquareRoot", "root", ("x",)),
        ("MatrixExponential", "exp", ("x",)),
        ("Lu", "lu", ("x",), {"output_idx_type": "int32"}),
        ("MatrixTriangularSolve", "solved", ("half", "x"), {"lower": True, "adjoint": True}),
        shape=(3, 3),
    )
    names = [
        "half",
        "inverse",
        "det",
        "eig",
        "eig:1",
        "svd",
        "svd:1",
        "svd:2",
        "qr",
        "qr:1",
        "root",
        "exp",
        "lu",
        "lu:1",
        "solved",
    ]
    half, inverse, det, e, v, s, u, w, q, r, root, exp, lu, order, solved = run(graph, SQUARE, outputs=names)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(half @ half.T, SQUARE, **close)
    np.testing.assert_allclose(inverse @ SQUARE, np.eye(3), **close)
    np.testing.assert_allclose(det, np.linalg.det(SQUARE), **close)
    np.testing.assert_allclose(v @ np.diag(e) @ v.T, SQUARE, **close)
    np.testing.assert_allclose(u @ np.diag(s) @ w.T, SQUARE, **close)
    np.testing.assert_allclose(q @ r, SQUARE, **close)
    np.testing.assert_allclose(root @ root, SQUARE, **close)
    np.testing.assert_allclose(exp, (v * np.exp(e)) @ v.T, **close)
    np.testing.assert_allclose((np.tril(lu, -1) + np.eye(3)) @ np.triu(lu), SQUARE[order], **close)
    np.testing.assert_allclose(half.T @ solved, SQUARE, **close)


KNOWN = {
    "lgamma": (0.5, math.log(math.pi) / 2),
    "digamma": (1.0, -special.EULER),
    "erfinv": (math.erf(0.7), 0.7),
    "ndtri": (0.975, 1.959963984540054),
    "expint": (1.0, 1.8951178163559368),
    "dawsn": (1.0, 0.5380795069127684),
    "fresnel_sin": (1.0, 0.4382591473903548),
    "fresnel_cos": (1.0, 0.7798934003768228),
    "spence": (2.0, -(math.pi**2) / 12),
    "bessel_j0": (1.0, 0.7651976865579666),
    "bessel_j1": (1.0, 0.44005058574493355),
    "bessel_y0": (1.0, 0.08825696421567697),
    "bessel_y1": (1.0, -0.7812128213002887),
    "bessel_i0": (1.0, 1.2660658777520084),
    "bessel_i1": (1.0, 0.565159103992485),
    "bessel_k0": (1.0, 0.42102443824070834),
    "bessel_k1": (1.0, 0.6019072301972346),
    "erfcx": (1.0, 0.427583576155807),
}


@pytest.mark.parametrize("name", KNOWN)
def test_special_functions(name: str) -> None:
    at, want = KNOWN[name]
    assert getattr(special, name)(np.array([at]))[0] == pytest.approx(want, rel=1e-11)


def test_special_functions_of_several_numbers() -> None:
    one = np.array([2.5])
    assert special.zeta(np.array([2.0]), np.array([1.0]))[0] == pytest.approx(math.pi**2 / 6, rel=1e-13)
    assert special.polygamma(np.array([1.0]), np.array([1.0]))[0] == pytest.approx(math.pi**2 / 6, rel=1e-13)
    assert (special.igamma(one, one) + special.igammac(one, one))[0] == pytest.approx(1)
    assert special.igamma(np.array([1.0]), one)[0] == pytest.approx(1 - math.exp(-2.5), rel=1e-13)
    assert special.betainc(np.array([2.0]), np.array([1.0]), np.array([0.3]))[0] == pytest.approx(0.09, rel=1e-13)


def test_special_functions_in_programs() -> None:
    graph = graph_of(
        ("Abs", "p", ("x",)),
        ("Lgamma", "a", ("p",)),
        ("BesselI0e", "b", ("x",)),
        ("Igamma", "c", ("p", "p")),
        shape=(-1, 4),
    )
    found = run(graph, X, outputs=["a", "b", "c"])
    np.testing.assert_allclose(found[0][0, :3], [math.lgamma(v) for v in (5, 4, 3)], rtol=1e-5)
    np.testing.assert_allclose(found[1], special.bessel_i0e(X.reshape(-1).astype(float)).reshape(3, 4), rtol=1e-5)


# ---- sequences, boxes, numbers


def test_greedy_decoding() -> None:
    logits = np.full((4, 1, 3), -1.0, "float32")
    for step, best in enumerate([0, 0, 2, 1]):
        logits[step, 0, best] = 1.0
    graph = graph_of(
        constant("n", [4]), ("CTCGreedyDecoder", "d", ("x", "n"), {"merge_repeated": True}), shape=(4, 1, 3)
    )
    values, shape, score = run(graph, logits, outputs=["d:1", "d:2", "d:3"])
    assert (values.tolist(), shape.tolist(), score.tolist()) == ([0, 1], [1, 2], [[-4.0]])


def test_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0.4 * 0.4 (blank, blank) loses against 0 in all its three ways: 0.6 * 0.6 + 0.6 * 0.4 * 2.
    logits = np.log(np.array([[[0.6, 0.4]], [[0.6, 0.4]]], "float32"))
    graph = graph_of(
        constant("n", [2]),
        ("CTCBeamSearchDecoder", "d", ("x", "n"), {"beam_width": 4, "top_paths": 1, "merge_repeated": False}),
        shape=(2, 1, 2),
    )
    searched = []
    search = registry._functions["tf.beams"]
    monkeypatch.setitem(registry._functions, "tf.beams", lambda *given: searched.append(1) or search(*given))
    places, values, size, score = run(graph, logits, outputs=["d", "d:1", "d:2", "d:3"])
    assert (places.tolist(), values.tolist(), size.tolist()) == ([[0, 0]], [0], [1, 1])
    assert score[0, 0] == pytest.approx(math.log(0.84), abs=1e-5)
    assert len(searched) == 1


def test_pooling_with_places() -> None:
    graph = graph_of(("MaxPoolWithArgmax", "p", ("x",)), shape=(1, 2, 4, 1))
    for key, value in (("ksize", [1, 2, 2, 1]), ("strides", [1, 2, 2, 1]), ("padding", "VALID"), ("Targmax", "int64")):
        fill(graph.node[-1].attr[key], value)
    image = np.array([3.0, 1, 2, 8, 5, 0, 7, 4], "float32").reshape(1, 2, 4, 1)
    most, places = run(graph, image, outputs=["p", "p:1"])
    assert (most.reshape(-1).tolist(), places.reshape(-1).tolist()) == ([5.0, 8.0], [4, 3])


def test_random_numbers() -> None:
    graph = graph_of(
        constant("n", [400]),
        constant("seed", [1, 2], "int64"),
        ("StatelessRandomUniform", "u", ("n", "seed"), {"dtype": "float32"}),
        constant("low", -2),
        constant("high", 3),
        ("RandomUniformInt", "i", ("n", "low", "high")),
        ("TruncatedNormal", "t", ("n",), {"dtype": "float32"}),
        ("RandomShuffle", "s", ("x",)),
    )
    u, i, t, s = run(graph, X, outputs=["u", "i", "t", "s"])
    assert abs(u.mean() - 0.5) < 0.1 and set(i.tolist()) == {-2, -1, 0, 1, 2} and np.abs(t).max() <= 2
    assert sorted(map(tuple, s.tolist())) == sorted(map(tuple, X.tolist()))
    np.testing.assert_array_equal(run(graph, X, outputs=["u", "s"])[0], u)


def test_old_normalisation() -> None:
    graph = graph_of(
        *[constant(n, np.arange(1.0, 5) * k, "float32") for k, n in enumerate(("m", "v", "b", "g"), 1)],
        (
            "BatchNormWithGlobalNormalization",
            "y",
            ("x", "m", "v", "b", "g"),
            {"variance_epsilon": 0.5, "scale_after_normalization": True},
        ),
    )
    m, v, b, g = (np.arange(1.0, 5) * k for k in range(1, 5))
    np.testing.assert_allclose(run(graph, X)[0], (X - m) / np.sqrt(v + 0.5) * g + b, rtol=1e-5)
