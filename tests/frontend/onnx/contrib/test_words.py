"""Operators of com.microsoft on strings, tokens and frames, and layers that see a memory, against ONNX Runtime; what is imported at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state

import tilewright.relay.frontend.onnx  # noqa: F401 (it registers the converters)
from tests.frontend.onnx.contrib.test_operators import DOMAIN, Arrays, check, model, normal, run_reference
from tilewright.relay.frontend.onnx.program import Program
from tilewright.relay.frontend.onnx.value import converters
from tilewright.support.errors import OpNotImplemented

TEXTS = np.array(["Hello World", "I love computer science !", "", "  a  bb ccc  "], object)


def check_exactly(op: str, inputs: Arrays, constants: Arrays | None = None, **attrs: Any) -> None:
    """Results that are strings or integers."""
    made = model(op, inputs, constants or {}, [*inputs, *(constants or {})], **attrs)
    for got, want in zip(Program(made)(inputs), run_reference(made, inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(got, want.dtype), want)


@pytest.mark.parametrize("dtype", ["uint32", "int64", "float32", "float64"])
def test_hashes_of_numbers(dtype: str) -> None:
    x = (normal(3, 4) * 1e6).astype(dtype)
    check_exactly("MurmurHash3", {"x": x})
    check_exactly("MurmurHash3", {"x": x}, positive=0, seed=123)


def test_hashes_of_texts() -> None:
    strings = np.array([["", "a", "ab"], ["abc", "abcd", "Ünïcode, longer"]], object)
    check_exactly("MurmurHash3", {"x": strings})
    check_exactly("MurmurHash3", {"x": strings}, positive=0, seed=7)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_hashes_of_runs_of_tokens(dtype: str) -> None:
    ids = np.array([[5, 9, 3, 17, 2, 8, 3], [1, 3, 4, 4, 12, 3, 3]], dtype)
    given: Arrays = {
        "ids": ids,
        "multipliers": np.array([7, 1000003, 998877], dtype),
        "sizes": np.array([11, 13, 17, 19], dtype),
        "past": np.array([[4, 3], [9, 9]], dtype),
        "offsets": np.arange(4).astype(dtype) * 100,
        "end": np.array(3, dtype),
        "segments": np.array([[0, 0, 1, 1, 1, 2, 2], [5, 5, 5, 5, 0, 0, 0]], np.int32),
    }
    attrs: dict[str, Any] = {"pad_id": 2, "n_head_per_ngram": 2, "max_ngram_size": 3, "outputs": 2}
    for names in (list(given)[:3], list(given)[:5], list(given)):
        inputs = {n: given[n] for n in names}
        for reset in (0, 1) if "end" in names else (0,):
            check_exactly("NGramHashMapping", inputs, reset_on_eos=reset, **attrs)


@pytest.mark.parametrize(
    "how",
    [
        {"separators": [" "]},
        {"separators": [" ", "o"]},
        {"separators": ["[ol]+"]},
        {"separators": [""]},
        {"tokenexp": "[A-Z]?l+|o"},
    ],
)
def test_texts_are_cut(how: dict[str, Any]) -> None:
    for mark in (0, 1):
        check_exactly("Tokenizer", {"x": TEXTS}, pad_value="#", mark=mark, mincharnum=1, **how)
    check_exactly("Tokenizer", {"x": TEXTS.reshape(2, 2)}, pad_value="#", mark=0, mincharnum=1, **how)


def test_tokens_of_few_letters_are_left_out() -> None:
    check_exactly("Tokenizer", {"x": TEXTS}, pad_value="", mark=0, mincharnum=2, separators=[" "])
    broken = model("Tokenizer", {"x": TEXTS}, {}, ["x"], pad_value="", mark=0, mincharnum=1, tokenexp="(")
    with pytest.raises(
        OpNotImplemented, match=r"its attribute tokenexp is '\('; supported: regular expressions \(missing \)"
    ):
        Program(broken)({"x": TEXTS})


def test_words_as_numbers() -> None:
    words = np.array([[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0], [1, 0, 3, 4]], np.int32)
    check("WordConvEmbedding", {"x": words}, {"w": normal(5, 1, 2, 3), "b": normal(5), "c": normal(9, 3)})


@pytest.mark.parametrize("shape", [(5, 7), (1, 6, 4), (1, 5)])
def test_the_cheapest_path(shape: tuple[int, ...]) -> None:
    check_exactly("DynamicTimeWarping", {"x": normal(*shape)})
    # Equal costs, too.
    check_exactly("DynamicTimeWarping", {"x": np.random.default_rng(1).integers(0, 3, shape).astype(np.float32)})


@pytest.mark.parametrize("seed", range(6))
def test_where_guessed_tokens_depart(seed: int) -> None:
    random = np.random.default_rng(seed)
    source, start = random.integers(0, 4, 8), int(random.integers(0, 8))
    guess = np.append(source[start:], random.integers(0, 4))
    guess[random.integers(0, len(guess))] = random.integers(0, 4)
    inputs = {"s": source, "c": random.integers(0, 4, 4), "m": np.array([start]), "p": guess}
    check_exactly("BifurcationDetector", inputs, outputs=2, min_ngram_size=1 + seed % 2, max_ngram_size=2 + seed % 3)
    del inputs["p"]
    check_exactly("BifurcationDetector", inputs, outputs=2)


def test_embeddings_of_bytes() -> None:
    random = np.random.default_rng(0)
    tables = {n: random.integers(0, 255, s).astype(np.uint8) for n, s in
              {"words": (10, 8), "places": (6, 8), "kinds": (2, 8), "gamma": (8,), "beta": (8,)}.items()}  # fmt: skip
    scales = {f"{n}_scale": np.array(0.01 * (k + 1), np.float32) for k, n in enumerate(tables)}
    zeros = {f"{n}_zero": np.array(100 + 9 * k, np.uint8) for k, n in enumerate(tables)}
    inputs: Arrays = {
        "ids": random.integers(0, 10, (2, 5)).astype(np.int32),
        "segments": random.integers(0, 2, (2, 5)).astype(np.int32),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    }
    order = ["ids", "segments", *tables, "mask", *scales, *zeros]
    constants = {**tables, **scales, **zeros}
    check("QEmbedLayerNormalization", inputs, constants, order, outputs=2)
    bare = ["" if n.startswith(("segments", "kinds")) else n for n in order]
    left = {k: v for k, v in constants.items() if k in bare}
    check("QEmbedLayerNormalization", {k: v for k, v in inputs.items() if k != "segments"}, left, bare, outputs=2)


@pytest.mark.parametrize(
    "direction, layer, lengths, given",
    [("forward", 3, True, True), ("reverse", 0, True, False), ("bidirectional", 30, False, True)],
)
def test_lstm_that_looks_at_a_memory(direction: str, layer: int, lengths: bool, given: bool) -> None:
    both, hidden, memory = 2 if direction == "bidirectional" else 1, 5, 4
    wide = layer or memory
    inputs = {"x": normal(4, 2, 3), "m": normal(2, 7, memory)}
    constants: Arrays = {
        "w": normal(both, 4 * hidden, 3 + wide),
        "r": normal(both, 4 * hidden, hidden),
        "b": normal(both, 8 * hidden),
        "qw": normal(both, hidden, 6),
        "mw": normal(both, memory, 6),
        "v": normal(both, 6),
    }
    if lengths:
        constants |= {"l": np.array([4, 2], np.int32), "ml": np.array([7, 4], np.int32)}
    if given:
        constants |= {"h": normal(both, 2, hidden), "c": normal(both, 2, hidden), "p": normal(both, 3 * hidden)}
    if layer:
        constants["aw"] = normal(both, memory + hidden, layer)
    names = ["x", "w", "r", "b", "l", "h", "c", "p", "qw", "mw", "v", "m", "ml", "aw"]
    order = [n if n in {**inputs, **constants} else "" for n in names]
    check("AttnLSTM", inputs, constants, order, outputs=3, hidden_size=hidden, direction=direction)


def test_sparse_weights_in_a_product() -> None:
    weights = np.zeros((4, 5), np.float32)
    weights[[0, 1, 3], [1, 4, 2]] = [1.5, -2, 3]
    places = np.flatnonzero(weights)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(weights.reshape(-1)[places], "w"), numpy_helper.from_array(places, "w_at"), [4, 5]
    )
    attrs = {"transA": 1, "alpha": 0.5}
    made = model("SparseToDenseMatMul", {"b": normal(4, 3)}, {}, ["w", "b"], **attrs)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    np.testing.assert_allclose(Program(made)({"b": normal(4, 3)})[0], 0.5 * weights.T @ normal(4, 3), rtol=1e-5)


@pytest.mark.parametrize("length, past, rotary", [(20, 0, 0), (20, 0, 1), (1, 37, 1)])
def test_sparse_attention(length: int, past: int, rotary: int) -> None:
    most, block, size, heads, groups = 64, 16, 16, 4, 2
    table = np.tril(np.ones((2, 4, 4), bool))
    table[0, 3, 1] = table[1, 2, 0] = table[1, 3, 2] = False
    rows = np.concatenate([np.zeros((2, 1), int), table.sum(axis=2).cumsum(axis=1)], axis=1).astype(np.int32)
    columns = np.full((2, 9), -1, np.int32)
    for k in range(2):
        places = np.nonzero(table[k])[1]
        columns[k, : len(places)] = places
    inputs = {
        n: normal(2, length, h * size) * s for n, h, s in (("q", heads, 1), ("k", groups, 0.9), ("v", groups, 0.8))
    }
    for n in ("pk", "pv"):
        inputs[n] = np.zeros((2, groups, most, size), np.float32)
        inputs[n][:, :, :past] = normal(2, groups, past, size)
    total = past + length
    constants: Arrays = {
        "rows": rows,
        "columns": columns,
        "total": np.array(total, np.int32),
        "lengths": np.full(2, total, np.int32),
    }
    if rotary:
        angles = np.outer(np.arange(most), np.linspace(1, 0.1, size // 2)).astype(np.float32)
        constants |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    made = model(
        "SparseAttention", inputs, constants, [*inputs, *constants], outputs=3,
        num_heads=heads, kv_num_heads=groups, sparse_block_size=block, do_rotary=rotary,
    )  # fmt: skip
    # ONNX Runtime writes keys and values into the buffers that it is given.
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    copies = {k: v.copy() for k, v in inputs.items()}
    values = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in copies.items()}
    binding = session.io_binding()
    for k, v in values.items():
        binding.bind_ortvalue_input(k, v)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values["pk"])
    binding.bind_ortvalue_output("y2", values["pv"])
    session.run_with_iobinding(binding)
    for got, want in zip(Program(made)(inputs), binding.get_outputs(), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=2e-4, atol=2e-5)


def test_the_page_names_all_operators_of_the_domain() -> None:
    """docs/onnx.md has a table of what is imported and one of what is not, with the reason."""
    page = (Path(__file__).parents[4] / "docs" / "onnx.md").read_text()
    part = page[page.index("## com.microsoft") : page.index("## Messages")]
    taken, left = part.split("Not imported")
    names = {n for line in taken.splitlines() if line.startswith("|") for n in re.findall(r"`(\w+)`", line)}
    absent = {
        n for line in left.splitlines() if line.startswith("|") for n in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert names == {n for d, n in converters if d == DOMAIN}
    defined = {s.name for s in onnxruntime_pybind11_state.get_all_operator_schema() if s.domain == DOMAIN}
    assert not names & absent
    told = re.search(r"of what ONNX Runtime (\d+)\.(\d+) defines", left)
    # Later ones define more; of those that the page was written for, none may be left out.
    assert told
    if tuple(map(int, ort.__version__.split(".")[:2])) <= (int(told[1]), int(told[2])):
        assert not defined - names - absent
