"""Keras's layers of strings and vocabularies in files written by hand, without TensorFlow, which those layers need: known answers. Names
of inputs."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.frontend.keras.models import keras
from tilewright import relay
from tilewright.relay.frontend import decode_strings, encode_strings, from_keras
from tilewright.runtime.host_functions.hashing import fingerprint64
from tilewright.support.errors import ModelError, OpNotImplemented

L = keras.layers


def archive(
    folder: Path,
    kind: str,
    config: Mapping[str, Any],
    assets: Mapping[str, str] | None = None,
    weights: Mapping[str, np.ndarray] | None = None,
    shape: Sequence[Any] = (None, 1),
    dtype: str = "string",
) -> Path:
    """A .keras file of one layer behind one input."""
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["given", 0, 0]}}
    layers = [
        {"class_name": "InputLayer", "module": "keras.layers", "name": "given", "inbound_nodes": [],
         "config": {"name": "given", "batch_shape": list(shape), "dtype": dtype}},
        {"class_name": kind, "module": "keras.layers", "name": "layer", "config": {"name": "layer", **config},
         "inbound_nodes": [{"args": [tensor], "kwargs": {}}]},
    ]  # fmt: skip
    spec = {"layers": layers, "input_layers": ["given", 0, 0], "output_layers": ["layer", 0, 0]}
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for name, array in (weights or {}).items():
            file[name] = array
    path = folder / "m.keras"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("config.json", json.dumps({"class_name": "Functional", "config": spec, "module": "keras"}))
        made.writestr("metadata.json", json.dumps({"keras_version": "3.9.0"}))
        made.writestr("model.weights.h5", held.getvalue())
        for name, text in (assets or {}).items():
            made.writestr(name, text)
    return path


def answer(path: Any, data: Any) -> Any:
    mod, params = from_keras(path, layout="NHWC")
    attrs = dict(mod["main"].attrs)
    given = encode_strings(data) if attrs.get("string_inputs") else np.asarray(data, np.int64)
    made = relay.create_executor("vm", mod=mod).evaluate()(given, **params).numpy()
    return (decode_strings(made) if attrs.get("string_outputs") else made).tolist()


LINES = [["The cat sat"], ["on the mat, the MAT!"]]
STANDARD = {"standardize": "lower_and_strip_punctuation", "split": "whitespace", "output_mode": "int"}
ADAPTED = {"assets/layers/text_vectorization/vocabulary.txt": "\n[UNK]\nthe\nmat\ncat"}


def test_vectorization(tmp_path: Path) -> None:
    path = archive(tmp_path, "TextVectorization", STANDARD, ADAPTED)
    assert answer(path, LINES) == [[2, 4, 1, 0, 0], [1, 2, 3, 2, 3]]
    short = archive(tmp_path, "TextVectorization", {**STANDARD, "output_sequence_length": 2}, ADAPTED)
    assert answer(short, LINES) == [[2, 4], [1, 2]]
    letters = archive(tmp_path, "TextVectorization", {**STANDARD, "split": "character", "vocabulary": ["a", "t"]})
    assert answer(letters, [["At!"], ["t"]]) == [[2, 3], [3, 0]]
    pairs = archive(tmp_path, "TextVectorization", {**STANDARD, "ngrams": 2, "vocabulary": ["the mat"]})
    assert answer(pairs, [["the mat"]]) == [[1, 1, 2]]


def test_counts(tmp_path: Path) -> None:
    config = {
        **STANDARD,
        "output_mode": "count",
        "vocabulary": ["the", "mat"],
        "max_tokens": 5,
        "pad_to_max_tokens": True,
    }
    assert answer(archive(tmp_path, "TextVectorization", config), LINES) == [[2, 1, 0, 0, 0], [1, 2, 2, 0, 0]]
    weighted = {**STANDARD, "output_mode": "tf_idf", "vocabulary": ["the", "mat"]}
    place = "layers/text_vectorization/vars/idf_weights"
    path = archive(tmp_path, "TextVectorization", weighted, weights={place: np.array([0.5, 2, 3], "float32")})
    assert answer(path, LINES) == [[1.0, 2.0, 0.0], [0.5, 4.0, 6.0]]


def test_look_ups(tmp_path: Path) -> None:
    words = [["a", "zebra"], ["", "b"]]
    known = {"vocabulary": ["a", "b"]}
    assert answer(archive(tmp_path, "StringLookup", known, shape=(None, 2)), words) == [[1, 0], [0, 2]]
    masked = archive(tmp_path, "StringLookup", {**known, "mask_token": ""}, shape=(None, 2))
    assert answer(masked, words) == [[2, 1], [0, 3]]
    several = archive(tmp_path, "StringLookup", {**known, "num_oov_indices": 3}, shape=(None, 2))
    assert answer(several, words) == [[3, fingerprint64(b"zebra") % 3], [fingerprint64(b"") % 3, 4]]
    learned = {"assets/layers/string_lookup/vocabulary.txt": "[UNK]\nb"}
    assert answer(archive(tmp_path, "StringLookup", {}, learned, shape=(None, 2)), words) == [[0, 0], [0, 1]]
    hot = archive(tmp_path, "StringLookup", {**known, "output_mode": "multi_hot"}, shape=(None, 2))
    assert answer(hot, words) == [[1, 1, 0], [1, 0, 1]]
    back = archive(tmp_path, "StringLookup", {**known, "invert": True}, shape=(None, 2), dtype="int64")
    assert answer(back, [[0, 1], [2, 9]]) == [["[UNK]", "a"], ["b", "[UNK]"]]
    numbers = archive(
        tmp_path, "IntegerLookup", {"num_oov_indices": 2},
        {"assets/layers/integer_lookup/vocabulary.txt": "-1\n-1\n9\n7"}, shape=(None, 2), dtype="int64",
    )  # fmt: skip
    assert answer(numbers, [[9, 7], [4, -3]]) == [[2, 3], [0, 1]]


def test_hashes(tmp_path: Path) -> None:
    path = archive(tmp_path, "Hashing", {"num_bins": 9, "mask_value": ""}, shape=(None, 2))
    assert answer(path, [["a", ""], ["cat", "b"]]) == [
        [1 + fingerprint64(b"a") % 8, 0],
        [1 + fingerprint64(b"cat") % 8, 1 + fingerprint64(b"b") % 8],
    ]
    numbers = archive(tmp_path, "Hashing", {"num_bins": 9}, dtype="int64")
    assert answer(numbers, [[12]]) == [[fingerprint64(b"12") % 9]]


def test_vocabularies_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match="the file holds no vocabulary of it. Save the model as a .keras file after adapt"
    ):
        from_keras(archive(tmp_path, "StringLookup", {}))
    with pytest.raises(
        OpNotImplemented, match="TextVectorization 'layer': its split is a function of the model's author"
    ):
        from_keras(archive(tmp_path, "TextVectorization", {**STANDARD, "split": {"class_name": "function"}}))
    with pytest.raises(
        OpNotImplemented, match="Flatten 'layer': its input is a tensor of strings, but it takes numbers"
    ):
        from_keras(archive(tmp_path, "Flatten", {}))
    with pytest.raises(
        OpNotImplemented, match="StringLookup 'layer': its input is a tensor of int64; it takes strings"
    ):
        from_keras(archive(tmp_path, "StringLookup", {"vocabulary": ["a"]}, dtype="int64"))


# ---- names of inputs


def names(mod: Any) -> list[str]:
    return [p.name_hint for p in mod["main"].params if p.name_hint not in ("dense.kernel", "dense.bias")]


@pytest.fixture
def plain() -> Any:
    x = keras.Input((4,))
    return keras.Model(x, L.Dense(2, name="dense")(x))


@pytest.mark.parametrize("key", ["input_1", "input_1:0", "keras_tensor", "input_layer_7", "keras_tensor_12:0", "input"])
def test_names_of_the_only_input(plain: Any, key: str, tmp_path: Path) -> None:
    """Keras numbers what has no name, by what the process made before: a program that says another number means this one."""
    plain.save(tmp_path / "m.keras")
    for source in (plain, tmp_path / "m.keras"):
        mod, params = from_keras(source, shape={key: (3, 4)})
        assert names(mod) == [key.removesuffix(":0")]
        assert list(mod["main"].params[0].type_annotation.shape) == [3, 4]


def test_names_of_tensors(plain: Any) -> None:
    mod, _ = from_keras(plain, shape={plain.inputs[0].name: (3, 4)})
    assert names(mod) == [plain.inputs[0].name]
    mod, _ = from_keras(plain)
    assert names(mod) == [plain.layers[0].name]


def test_names_of_two_inputs() -> None:
    a, b = keras.Input((4,)), keras.Input((2,))
    model = keras.Model([a, b], L.Concatenate()([a, b]))
    mod, _ = from_keras(model, shape={"input_3": (5, 2), "input_2": (5, 4)})
    assert [(p.name_hint, int(p.type_annotation.shape[1])) for p in mod["main"].params] == [
        ("input_2", 4),
        ("input_3", 2),
    ]
    with pytest.raises(ModelError, match="shape names 'input_1', but the model's inputs are"):
        from_keras(model, shape={"input_1": (5, 4)})
    with pytest.raises(ModelError, match="'input_layer(_\\d+)?' and '.*:0' name one input"):
        from_keras(model, shape={model.layers[0].name: (5, 4), f"{model.layers[0].name}:0": (5, 4)})


def test_names_that_mean_nothing(plain: Any) -> None:
    with pytest.raises(ModelError, match="shape names 'image', but the model's inputs are"):
        from_keras(plain, shape={"image": (3, 4)})


def test_texts_that_were_not_encoded(tmp_path: Path) -> None:
    mod, _ = from_keras(archive(tmp_path, "Hashing", {"num_bins": 9}))
    run = relay.create_executor("vm", mod=mod).evaluate()
    with pytest.raises(TypeError, match="arrays of strings have no elements that kernels know.*encode_strings"):
        run(np.array([["a"]]))


def test_shapes_that_are_none(plain: Any) -> None:
    with pytest.raises(ModelError, match="shape gives axis 0 of the input 'input_1' the extent 1.5"):
        from_keras(plain, shape={"input_1": (1.5, 4)})
