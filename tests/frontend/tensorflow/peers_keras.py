"""Keras's layers of strings and vocabularies beside Keras on TensorFlow (make test-tensorflow): live models, and files of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tensorflow.peers import Array, run, tf
from tilewright import relay
from tilewright.relay.frontend import decode_strings, encode_strings

keras = tf.keras
L = keras.layers


def strings(*values: str) -> Array:
    return np.array(values, object)


LINES = strings("The cat sat", "on the mat, the MAT!", "NAÏVE Café  -- 'x'", "")[:, None]
WORDS = strings("a", "b", "zebra", "", "d", "[UNK]").reshape(3, 2)
NUMBERS = np.array([[5, 7], [9, -3], [0, 11]])


def adapted(layer: Any, data: Any) -> Any:
    layer.adapt(tf.constant(data.tolist()))
    return layer


LAYERS: dict[str, tuple[Callable[[], Any], Array]] = {
    "vectorization": (lambda: adapted(L.TextVectorization(), LINES), LINES),
    "length": (lambda: adapted(L.TextVectorization(max_tokens=6, output_sequence_length=4), LINES), LINES),
    "long": (lambda: adapted(L.TextVectorization(output_sequence_length=9), LINES), LINES),
    "list_of_lines": (lambda: adapted(L.TextVectorization(), LINES), LINES[:, 0]),
    "characters": (lambda: adapted(L.TextVectorization(split="character"), LINES), LINES),
    "ngrams": (lambda: adapted(L.TextVectorization(ngrams=2), LINES), LINES),
    "two_ngrams": (lambda: adapted(L.TextVectorization(ngrams=(1, 3), output_sequence_length=5), LINES), LINES),
    "as_written": (lambda: adapted(L.TextVectorization(standardize=None), LINES), LINES),
    "lower": (lambda: adapted(L.TextVectorization(standardize="lower"), LINES), LINES),
    "strip": (lambda: adapted(L.TextVectorization(standardize="strip_punctuation"), LINES), LINES),
    "whole": (lambda: L.TextVectorization(split=None, vocabulary=["the cat sat", "b"]), LINES),
    "whole_words": (lambda: L.TextVectorization(split=None, vocabulary=["a", "b"]), WORDS),
    "multi_hot": (lambda: adapted(L.TextVectorization(output_mode="multi_hot"), LINES), LINES),
    "count_padded": (
        lambda: adapted(L.TextVectorization(max_tokens=20, output_mode="count", pad_to_max_tokens=True), LINES),
        LINES,
    ),
    "tf_idf": (lambda: adapted(L.TextVectorization(output_mode="tf_idf"), LINES), LINES),
    "tf_idf_given": (
        lambda: L.TextVectorization(
            output_mode="tf_idf",
            vocabulary=["the", "cat"],
            idf_weights=[0.5, 2.0],
            max_tokens=5,
            pad_to_max_tokens=True,
        ),
        LINES,
    ),
    "strings": (lambda: L.StringLookup(vocabulary=["a", "b", "c"]), WORDS),
    "strings_adapted": (lambda: adapted(L.StringLookup(), WORDS), WORDS),
    "strings_masked": (lambda: L.StringLookup(vocabulary=["a", "b"], mask_token=""), WORDS),
    "strings_unknown": (lambda: L.StringLookup(vocabulary=["a", "b"], num_oov_indices=3), WORDS),
    "strings_unknown_masked": (
        lambda: L.StringLookup(vocabulary=["a", "b"], num_oov_indices=3, mask_token="d"),
        WORDS,
    ),
    "strings_salted": (lambda: L.StringLookup(vocabulary=["a", "b"], num_oov_indices=30, salt=7), WORDS),
    "strings_one_hot": (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="one_hot"), WORDS),
    "strings_one_hot_column": (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="one_hot"), WORDS[:, :1]),
    "strings_multi_hot": (
        lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot", mask_token=""),
        WORDS,
    ),
    "strings_count": (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="count"), WORDS),
    "strings_back": (
        lambda: L.StringLookup(vocabulary=["a", "b"], invert=True),
        np.array([[0, 1], [2, 3], [-1, 9]]),
    ),
    "strings_back_masked": (
        lambda: L.StringLookup(vocabulary=["a", "b"], invert=True, mask_token="", num_oov_indices=2),
        np.array([[0, 1], [2, 3], [4, 9]]),
    ),
    "numbers": (lambda: L.IntegerLookup(vocabulary=[5, 7, 11]), NUMBERS),
    "numbers_adapted": (lambda: adapted(L.IntegerLookup(mask_token=0), NUMBERS), NUMBERS),
    "numbers_unknown": (lambda: L.IntegerLookup(vocabulary=[5, 7], num_oov_indices=4), NUMBERS),
    "numbers_hashed": (
        lambda: L.IntegerLookup(vocabulary=[5, 7], num_oov_indices=40, oov_method="farmhash"),
        NUMBERS,
    ),
    "numbers_back": (lambda: L.IntegerLookup(vocabulary=[5, 7], invert=True), np.array([[0, 1], [2, 3]])),
    "numbers_multi_hot": (lambda: L.IntegerLookup(vocabulary=[5, 7], output_mode="multi_hot"), NUMBERS),
    "hash": (lambda: L.Hashing(17), WORDS),
    "hash_masked": (lambda: L.Hashing(17, mask_value=""), WORDS),
    "hash_salted": (lambda: L.Hashing(17, salt=[3, 4]), WORDS),
    "hash_one_salt": (lambda: L.Hashing(17, salt=5), WORDS),
    "hash_numbers": (lambda: L.Hashing(17), NUMBERS),
    "hash_numbers_masked": (lambda: L.Hashing(17, mask_value=0), NUMBERS),
    "hash_one_hot": (lambda: L.Hashing(5, output_mode="one_hot"), WORDS[:, :1]),
    "hash_multi_hot": (lambda: L.Hashing(5, output_mode="multi_hot"), WORDS),
    "embedded": (
        lambda: keras.Sequential(
            [adapted(L.TextVectorization(), LINES), L.Embedding(30, 4, mask_zero=True), L.LSTM(3)]
        ),
        LINES,
    ),
}


def compare(model: Any, data: list[Array], tmp_path: Path, live: bool) -> None:
    wanted = model([tf.constant(x.tolist()) for x in data] if len(data) > 1 else tf.constant(data[0].tolist()))
    wanted = wanted.numpy()
    model.save(tmp_path / "m.keras")
    for source in (tmp_path / "m.keras", *([model] if live else ())):
        mod, params = relay.frontend.from_keras(source, layout="NHWC")
        (found,) = run(mod, params, [encode_strings(x) if x.dtype == object else x for x in data])
        if wanted.dtype == object:
            found = decode_strings(found)
            assert found.tolist() == [[t.decode() for t in row] for row in wanted]
            continue
        assert found.shape == wanted.shape
        assert (found.dtype == wanted.dtype) or {found.dtype.kind, wanted.dtype.kind} == {"i"}
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    make, data = LAYERS[name]
    kind = "string" if data.dtype == object else "int64"
    given = keras.Input(data.shape[1:], dtype=kind, name="given")
    compare(keras.Model(given, make()(given)), [data], tmp_path, True)


@pytest.mark.parametrize("mode", ["int", "one_hot"])
def test_crossing(mode: str, tmp_path: Path) -> None:
    a, b = keras.Input((1,), dtype="string"), keras.Input((1,), dtype="int64")
    model = keras.Model([a, b], L.HashedCrossing(23, output_mode=mode)((a, b)))
    compare(model, [WORDS[:, :1], NUMBERS[:, :1]], tmp_path, True)
