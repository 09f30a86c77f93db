"""Keras models whole: functional graphs, files, layouts, dynamic dimensions, operations, and what is said of bad ones."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.frontend.keras.models import compiled_outputs, data_for, keras, keras_outputs, shuffled
from tests.frontend.keras.test_layers import MODELS, check
from tilewright import relay
from tilewright.relay.frontend.keras import from_keras
from tilewright.support.errors import ModelError, OpNotImplemented

L, ops = keras.layers, keras.ops


def everything() -> Any:
    """A shared layer, models inside models, operations, several inputs and outputs."""
    inner = keras.Sequential([keras.Input((8,)), L.Dense(4, activation="relu"), L.BatchNormalization()], name="inner")
    x = keras.Input((8,))
    part = keras.Model(x, [L.Dense(3)(x), L.Dense(2, name="two")(x)], name="part")
    a, b = keras.Input((6, 8), name="a"), keras.Input((6, 8), name="b")
    shared = L.Dense(8, name="shared")
    x = L.Add()([shared(a), shared(b)])
    x = L.Bidirectional(L.LSTM(5, return_sequences=True))(x)
    x = L.MultiHeadAttention(2, 4)(x, x)
    x = ops.relu(x) * 2.0 + ops.sin(x)
    y = ops.reshape(ops.concatenate([x[:, 1:3], x[:, ::2]], axis=1), (-1, 50))
    y = L.Dense(8)(y)
    first, second = part(y)
    cells = L.RNN([L.LSTMCell(3), L.GRUCell(2)])(a)
    outputs = {
        "z": inner(y),
        "first": first,
        "second": second,
        "steps": L.TimeDistributed(L.Dense(3))(a),
        "cells": cells,
    }
    return keras.Model([a, b], outputs, name="everything")


@pytest.fixture(scope="module")
def model() -> Any:
    made = everything()
    shuffled(made)
    return made


def test_live(model: Any) -> None:
    check(model)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_files(model: Any, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    check(model, path)


def test_weights_are_mapped(model: Any) -> None:
    dense = keras.Sequential([keras.Input((8,)), L.Dense(4, name="d")])
    _, params = from_keras(dense)
    assert np.shares_memory(params["d.kernel"], dense.layers[0].kernel.value.detach().numpy())


def test_dynamic_batch(model: Any) -> None:
    mod, params = from_keras(model, layout="NHWC")
    data = data_for(model, 3)
    assert str(mod["main"].params[0].type_annotation.shape[0]) == "batch"
    run = relay.create_executor("vm", mod=mod).evaluate()
    for made, want in zip(run(*data, **params), keras_outputs(model, data), strict=True):
        made = made.numpy()
        np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


def test_dynamic_length() -> None:
    x = keras.Input((None, 4))
    model = keras.Model(x, L.LSTM(3, return_sequences=True)(x))
    shuffled(model)
    mod, params = from_keras(model, layout="NHWC")
    data = data_for(model, 2)
    run = relay.create_executor("vm", mod=mod).evaluate()
    made = run(*data, **params).numpy()
    np.testing.assert_allclose(made, keras_outputs(model, data)[0], rtol=1e-4, atol=1e-5)


def small_net() -> Any:
    x = keras.Input((12, 10, 3), name="image")
    y = L.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    y = L.ReLU(6.0)(L.BatchNormalization()(y))
    z = L.DepthwiseConv2D(3, padding="same")(y)
    y = L.Add()([y, z])
    y = L.Concatenate()([L.MaxPooling2D(2)(y), L.AveragePooling2D(2)(y)])
    maps = L.Conv2DTranspose(4, 3, strides=2, padding="same", activation="sigmoid")(y)
    return keras.Model(x, [L.Dense(5, activation="softmax")(L.GlobalAveragePooling2D()(y)), maps])


def test_channels_first() -> None:
    """Inputs and outputs of four axes are NCHW by default, and so are the convolutions."""
    model = small_net()
    shuffled(model)
    (data,) = data_for(model)
    mod, params = from_keras(model, shape={"image": (2, 3, 12, 10)})
    assert "NHWC" not in str(mod).replace("src_layout", "")
    scores, maps = compiled_outputs(mod, params, [data.transpose(0, 3, 1, 2).copy()])
    want = keras_outputs(model, [data])
    np.testing.assert_allclose(scores, want[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(maps, want[1].transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5)


def test_channels_last_compiled() -> None:
    model = small_net()
    shuffled(model)
    (data,) = data_for(model)
    mod, params = from_keras(model, shape={"image": (2, 12, 10, 3)}, layout="NHWC")
    for made, want in zip(compiled_outputs(mod, params, [data]), keras_outputs(model, [data]), strict=True):
        np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


OPERATIONS = {
    "arithmetic": lambda x: (x + 1) * 2 - x / 3 + 1 / (x * x + 1) - (-x),
    "unary": lambda x: ops.exp(x) + ops.tanh(x) + ops.sqrt(ops.abs(x)) + ops.square(x) + ops.sign(x) + ops.floor(x) + ops.log1p(ops.abs(x)),
    "near zero": lambda x: 1e7 * (ops.log1p(x * 1e-7) + ops.expm1(x * 1e-7)),
    "binary": lambda x: ops.maximum(x, 0.2) + ops.minimum(x, x * 2) + ops.power(ops.abs(x), 1.5) + ops.arctan2(x, x + 2),
    "mean": lambda x: ops.mean(x, axis=1) + ops.max(x, axis=1) + ops.var(x, axis=1) + ops.std(x, axis=1),
    "sum": lambda x: ops.sum(x, axis=[1, 2], keepdims=True) + ops.logsumexp(x, axis=-1, keepdims=True),
    "arg": lambda x: ops.argmax(x, axis=-1) + ops.argsort(x, axis=1)[:, :, 0],
    "where": lambda x: ops.where(ops.logical_and(x > 0, x < 1), x, -1.0),
    "shapes": lambda x: ops.squeeze(ops.expand_dims(ops.swapaxes(ops.transpose(x, (0, 2, 1)), 1, 2), 1), 1),
    "moveaxis": lambda x: ops.moveaxis(x, 1, 2),
    "pieces": lambda x: ops.concatenate(ops.split(x, 2, axis=-1)[::-1], axis=-1) + ops.stack([x[..., 0]] * 6, axis=-1),
    "items": lambda x: ops.concatenate([x[:, -1], x[:, 1, ::2], x[..., 2], x[:, None, 0, 1:3][:, 0]], axis=-1),
    "take": lambda x: ops.take(x, [2, 0], axis=1) + ops.roll(x, 1, axis=2)[:, :2] + ops.flip(x, axis=1)[:, :2],
    "pad": lambda x: ops.pad(x, [[0, 0], [1, 2], [0, 0]]) + ops.pad(x, [[0, 0], [1, 2], [0, 0]], mode="reflect"),
    "repeat": lambda x: ops.repeat(x, 2, axis=1) + ops.tile(x, (1, 2, 1)),
    "products": lambda x: ops.matmul(x, ops.swapaxes(x, 1, 2)) + ops.einsum("abc,adc->abd", x, x)
    + ops.tensordot(x, np.ones((6, 5), "float32"), 1),
    "types": lambda x: ops.cast(ops.cast(x, "int32"), "float32") + ops.clip(x, -1, 1) + ops.zeros_like(x) + ops.ones_like(x),
    "topk": lambda x: ops.top_k(x, 2),
    "cumsum": lambda x: ops.cumsum(x, axis=1) + ops.tril(x) + ops.sort(x, axis=1),
    "one_hot": lambda x: ops.one_hot(ops.cast(ops.abs(x), "int32"), 4),
    "activations": lambda x: ops.gelu(x) + ops.silu(x) + ops.softmax(x, axis=1) + ops.leaky_relu(x, 0.3)
    + ops.normalize(x) + ops.softplus(x),
    "tests": lambda x: ops.cast(ops.isnan(x), "float32") + ops.cast(ops.any(x > 1, axis=1, keepdims=True), "float32"),
    "images": lambda x: ops.max_pool(ops.image.resize(ops.expand_dims(x, -1), (8, 7)), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    x = keras.Input((5, 6))
    check(keras.Model(x, OPERATIONS[name](x)))


def test_mixed_precision() -> None:
    x = keras.Input((6,))
    y = L.Dense(4, dtype="mixed_bfloat16", activation="relu")(x)
    model = keras.Model(x, L.Dense(3)(y))
    shuffled(model)
    mod, _ = from_keras(model, layout="NHWC")
    assert "bfloat16" in str(mod)
    check(model, rtol=3e-2)


# ---- bad input


def test_unsupported_layers_are_listed_together() -> None:
    x = keras.Input((6,), name="x")
    y = L.Lambda(lambda v: v * 2, name="twice")(L.Dense(3)(x))
    model = keras.Model(x, L.Lambda(lambda v: v + 1, name="more")(y), name="odd")
    with pytest.raises(OpNotImplemented) as found:
        from_keras(model)
    assert str(found.value) == (
        "model 'odd': 1 thing is not supported\n"
        "  Lambda (2 layers: 'twice', 'more'): it runs Python code of the model's author, which a file does not describe."
        " Use operations of keras.ops in the model instead"
    )


def archive(tmp_path: Path) -> Path:
    path = tmp_path / "m.keras"
    keras.Sequential([keras.Input((4,)), L.Dense(2, name="d")]).save(path)
    return path


def rewritten(path: Path, change: Any) -> Path:
    """The archive with another description."""
    out = path.with_name("changed.keras")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                spec = json.loads(data)
                change(spec)
                data = json.dumps(spec).encode()
            new.writestr(name, data)
    return out


def test_unknown_classes_are_listed_with_near_ones(tmp_path: Path) -> None:
    def change(spec: Any) -> None:
        spec["config"]["layers"][1]["class_name"] = "Dence"

    path = rewritten(archive(tmp_path), change)
    with pytest.raises(OpNotImplemented) as found:
        from_keras(path)
    assert str(found.value) == f"{path}: 1 thing is not supported\n  Dence (1 layer: 'd'); nearest supported: Dense"


@pytest.mark.parametrize(
    "kept, finding",
    [
        ((), "the archive has no config.json, so it is no Keras model. Save it with model.save('m.keras')"),
        (("config.json",), "the archive has no model.weights.h5. Save it with model.save('m.keras')"),
    ],
)
def test_archives_without_a_part(kept: tuple[str, ...], finding: str, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("metadata.json", "{}")
        for name in kept:
            new.writestr(name, "{}")
    with pytest.raises(ModelError) as found:
        from_keras(path)
    assert str(found.value) == f"{path}: {finding}"


def test_wrong_numbers_in_descriptions(tmp_path: Path) -> None:
    def change(spec: Any) -> None:
        del spec["config"]["layers"][1]["config"]
        spec["config"]["layers"][1]["config"] = {"name": "d", "units": "many", "activation": {"class_name": 7}}

    with pytest.raises((ModelError, OpNotImplemented)):
        from_keras(rewritten(archive(tmp_path), change))


def test_an_input_of_no_type_that_there_is(tmp_path: Path) -> None:
    def change(spec: Any) -> None:
        spec["config"]["layers"][0]["config"]["dtype"] = "float12"

    with pytest.raises(ModelError, match="has elements of the type 'float12', which no array has"):
        from_keras(rewritten(archive(tmp_path), change))


def test_attention_along_no_axis() -> None:
    x = keras.Input((5, 8))
    model = keras.Model(x, L.MultiHeadAttention(2, 4, attention_axes=[])(x, x))
    with pytest.raises(ModelError, match="its attention is along no axis"):
        from_keras(model)


def test_truncated_files(tmp_path: Path) -> None:
    path = archive(tmp_path)
    data = path.read_bytes()
    for size in (0, 10, 100, len(data) // 2, len(data) - 30):
        cut = tmp_path / "cut.keras"
        cut.write_bytes(data[:size])
        with pytest.raises(ModelError, match="cut.keras: "):
            from_keras(cut)


def test_flipped_bits(tmp_path: Path) -> None:
    for suffix in ("keras", "h5"):
        path = tmp_path / f"flip.{suffix}"
        keras.Sequential([keras.Input((4,)), L.Dense(2)]).save(path)
        data = path.read_bytes()
        rng = np.random.default_rng(3)
        for _ in range(15):
            changed = bytearray(data)
            for at in rng.integers(0, len(data), 4):
                changed[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(changed))
            with contextlib.suppress(ModelError, OpNotImplemented):
                from_keras(path)


def test_command_line(tmp_path: Path) -> None:
    """The command line takes .keras files."""
    from tilewright.relay.frontend.common.formats import format_of

    path = archive(tmp_path)
    found = format_of(path)
    survey = found.survey(path, {})
    assert (survey.operators, survey.inputs[0].shape) == ({"Dense": ["d"]}, ["?", 4])
    assert [w.shape for w in survey.parameters] == [[4, 2], [2]]
    reference = found.reference(path, "keras", {})
    data = np.ones((1, 4), "float32")
    outputs, inner = reference.run({"input_layer": data}, ["d"])
    np.testing.assert_allclose(outputs[0], inner["d"][0])


def test_no_file() -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        from_keras("nothing.keras")


def test_weights_only(tmp_path: Path) -> None:
    path = tmp_path / "w.h5"
    with h5py.File(path, "w") as file:
        file.create_group("model_weights")
    with pytest.raises(ModelError, match="weights only"):
        from_keras(path)


def test_missing_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    keras.Sequential([keras.Input((4,)), L.Dense(2, name="d")]).save(path)
    with h5py.File(path, "a") as file:
        del file["model_weights"]["d"]
    with pytest.raises(ModelError, match=r"has 0 of the 2 weights \(kernel, bias\) of 'd'"):
        from_keras(path)


@pytest.mark.parametrize("name", ["another", "sequential"])
def test_weights_of_a_direction_that_was_renamed(tmp_path: Path, name: str) -> None:
    """A legacy file lists weights in order; names in the configuration may have changed since, and be those of what holds the layer."""
    path = tmp_path / "m.h5"
    made = keras.Sequential(
        [keras.Input((5, 3)), L.Bidirectional(L.GRU(4), backward_layer=L.GRU(4, go_backwards=True))], name="sequential"
    )
    shuffled(made)
    made.save(path)
    with h5py.File(path, "a") as file:
        config = json.loads(file.attrs["model_config"])
        (held,) = [x["config"] for x in config["config"]["layers"] if x["class_name"] == "Bidirectional"]
        held["backward_layer"]["config"]["name"] = name
        file.attrs["model_config"] = json.dumps(config)
    check(keras.models.load_model(path, compile=False), path)


def test_wrong_shapes_and_layouts() -> None:
    model = MODELS["dense"]()
    name = model.inputs[0]._keras_history.operation.name
    with pytest.raises(ModelError, match="shape names 'other', but the model's inputs are"):
        from_keras(model, shape={"other": (1, 7)})
    with pytest.raises(ModelError, match="the extent 8, but the model says 7"):
        from_keras(model, shape={name: (1, 8)})
    with pytest.raises(ModelError, match="layout is 'CHWN'; it must be one of NCHW"):
        from_keras(model, layout="CHWN")
    with pytest.raises(TypeError, match="from_keras takes a Keras model"):
        from_keras(3)


def test_models_with_code_of_their_own() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = L.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    with pytest.raises(ModelError, match="Own is a model with its own call\\(\\)"):
        from_keras(Own())


# Keras does not build NASNet over PyTorch; over TensorFlow it is among tensorflow/peers_formats.
APPLICATIONS = (
    "MobileNetV2", "ResNet50V2", "DenseNet121", "EfficientNetV2B0", "InceptionV3", "Xception", "ConvNeXtTiny", "MobileNetV3Small", "VGG16",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_application(name: str) -> None:
    size = 75 if name in ("InceptionV3", "Xception") else 64
    model = getattr(keras.applications, name)(
        weights=None, input_shape=(size, size, 3), include_top=False, pooling="avg"
    )
    (data,) = data_for(model, 1)
    mod, params = from_keras(model, shape={model.layers[0].name: (1, 3, size, size)})
    made = compiled_outputs(mod, params, [data.transpose(0, 3, 1, 2).copy()])
    want = keras_outputs(model, [data])[0]
    np.testing.assert_allclose(made[0], want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_a_heap_that_ends_too_early(tmp_path: Path) -> None:
    """HDF5's own library does not return from reading it."""
    path = tmp_path / "m.h5"
    keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)]).save(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    while int.from_bytes(data[at : at + 2], "little"):
        last, size = at, int.from_bytes(data[at + 8 : at + 16], "little")
        at += 16 + -(-size // 8) * 8
    data[last + 8] += 32
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"m.h5: the HDF5 file is damaged: the heap at byte \d+ has"):
        from_keras(path)


def test_files_of_models_with_code_of_their_own(tmp_path: Path) -> None:
    def own(spec: dict[str, Any]) -> None:
        spec.update(class_name="Own", module=None, registered_name="Own", config={})

    with pytest.raises(
        OpNotImplemented, match="Own .*: a model with a call\\(\\) of its own, which no file describes. Make it a"
    ):
        from_keras(rewritten(archive(tmp_path), own))
