"""Strings in TFLite models, and sparse look-ups in tables of embeddings, beside LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.writer import TYPES, Graph, Writer, litert, ours
from tilewright.relay.frontend import decode_strings, encode_strings, from_tflite
from tilewright.support.errors import ModelError, OpNotImplemented


def packed(*strings: str) -> bytes:
    """Strings as a buffer holds them."""
    parts = [t.encode() for t in strings]
    ends = np.cumsum([4 * (len(parts) + 2), *[len(p) for p in parts]]).astype(np.int32)
    return np.int32(len(parts)).tobytes() + ends.tobytes() + b"".join(parts)


def constant(g: Graph, *strings: str, data: bytes | None = None) -> int:
    return g.tensor(f"t{len(g.table.tensors)}", "string", (len(strings),), data=data or packed(*strings))


def as_texts(found: np.ndarray[Any, Any]) -> list[str]:
    return [t.decode() for t in found.reshape(-1).tolist()]


def test_labels() -> None:
    """Numbers in, strings out."""
    w = Writer()
    g = w.main
    at = g.input("int32", (4,))
    made = g.op("GATHER", [constant(g, "cat", "dog", "naïve"), at], [("string", (4,))], {}, "GatherOptions")
    data, places = w.finish(made), np.array([2, 0, 0, 1], np.int32)
    mod, _ = from_tflite(data)
    assert dict(mod["main"].attrs)["string_outputs"] == ("gather0_0",)
    want = as_texts(litert(data, [places], optimised=True)[0])
    assert decode_strings(ours(data, [places])[0]).tolist() == want == ["naïve", "cat", "cat", "dog"]


def test_texts_compared() -> None:
    """Strings in, numbers out."""
    w = Writer()
    g = w.main
    x = g.input("string", (3,), name="words")
    made = g.op("EQUAL", [x, constant(g, "a", "bb", "c")], [("bool", (3,))], {}, "EqualOptions")
    data = w.finish(made)
    mod, _ = from_tflite(data)
    assert dict(mod["main"].attrs)["string_inputs"] == ("words",)
    given = np.array([b"a", b"b", b"c"], object)
    want = litert(data, [given], optimised=True)[0].tolist()
    assert ours(data, [encode_strings(given)])[0].tolist() == want == [True, False, True]


def test_tables_of_texts() -> None:
    w = Writer()
    init = w.graph("init")

    def table(g: Graph) -> int:
        kinds = {"table_id": 3, "key_dtype": TYPES["string"], "value_dtype": TYPES["int64"]}
        return g.op("HASHTABLE", [], [("resource", (1,))], kinds, "HashtableOptions")[0]

    values = init.constant(np.array([5, 6, 7], np.int64))
    init.op("HASHTABLE_IMPORT", [table(init), constant(init, "x", "yy", "z"), values], [], {}, "HashtableImportOptions")
    g = w.main
    g.op("CALL_ONCE", [], [], {"init_subgraph_index": 1}, "CallOnceOptions")
    x = g.input("string", (4,))
    default = g.constant(np.array([-1], np.int64))
    made = g.op("HASHTABLE_FIND", [table(g), x, default], [("int64", (4,))], {}, "HashtableFindOptions")
    data, given = w.finish(made), np.array([b"z", b"y", b"yy", b""], object)
    want = litert(data, [given], optimised=True)[0].tolist()
    assert ours(data, [encode_strings(given)])[0].tolist() == want == [7, -1, 6, -1]


def test_texts_are_no_numbers() -> None:
    w = Writer()
    made = w.main.op("NEG", [w.main.input("string", (2,))], [("string", (2,))], {}, "NegOptions")
    with pytest.raises(OpNotImplemented, match="its input is a tensor of strings, but it takes numbers"):
        from_tflite(w.finish(made))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\x7f", packed("a", "b")[:-1], packed("a"), b"\0" * 16])
def test_damaged_texts(data: bytes) -> None:
    w = Writer()
    g = w.main
    made = g.op(
        "GATHER", [constant(g, "a", "b", data=data), g.input("int32", (1,))], [("string", (1,))], {}, "GatherOptions"
    )
    with pytest.raises(ModelError, match=r"the strings of the tensor 't0' of shape \(2,\) do not lie in its \d+ bytes"):
        from_tflite(w.finish(made))


@pytest.mark.parametrize("combiner", [0, 1, 2])
def test_sparse_embeddings(combiner: int) -> None:
    rng = np.random.default_rng(0)
    w = Writer()
    g = w.main
    ids = g.input("int32", (4,))
    places = g.constant(np.array([[0, 0], [2, 0], [2, 1], [2, 3]], np.int32))
    size = g.constant(np.array([3, 4], np.int32))
    weights = g.constant(np.array([1.0, 2.0, 0.5, 4.0], np.float32))
    table = g.constant(rng.standard_normal((5, 3, 2)).astype("float32"))
    made = g.op(
        "EMBEDDING_LOOKUP_SPARSE", [ids, places, size, weights, table], [("float32", (3, 3, 2))], {"combiner": combiner},
        "EmbeddingLookupSparseOptions",
    )  # fmt: skip
    data, given = w.finish(made), np.array([1, 3, 0, 4], np.int32)
    np.testing.assert_allclose(ours(data, [given])[0], litert(data, [given], optimised=True)[0], rtol=1e-5, atol=1e-6)
