"""Whole networks as TFLite files, by TensorFlow's converter: float, dynamic range, float16, int8, int16 with int8 weights.

python tests/frontend/tflite/convert.py FOLDER [NAME ...]; needs TensorFlow and nothing of this project: `make test-tflite` has an
environment for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")

import numpy as np
import tensorflow as tf
from tensorflow import keras

L, A = keras.layers, keras.applications
KINDS = ("float", "dynamic", "float16", "int8", "int16x8")


def application(name: str, size: int, **more: Any) -> Callable[[], Any]:
    """One of Keras's architectures, with random weights, whose layers normalise by what they see: else all classes are as likely."""

    def build() -> Any:
        model = getattr(A, name)(input_shape=(size, size, 3), weights=None, classes=20, **more)
        for layer in model.layers:
            if isinstance(layer, L.BatchNormalization):
                layer.momentum = 0.0
        model(np.random.default_rng(1).standard_normal((16, size, size, 3)).astype(np.float32), training=True)
        return model

    return build


def recurrent() -> Any:
    x = given = keras.Input(batch_shape=(1, 12, 8))
    x = L.LSTM(10)(L.LSTM(16, return_sequences=True)(x))
    return keras.Model(given, L.Dense(5, activation="softmax")(x))


def gated() -> Any:
    x = given = keras.Input(batch_shape=(1, 12, 8))
    x = L.Bidirectional(L.LSTM(6))(L.GRU(16, return_sequences=True)(x))
    return keras.Model(given, L.Dense(5, activation="sigmoid")(x))


def transformer() -> Any:
    x = given = keras.Input((16, 32))
    h = L.LayerNormalization()(x)
    x = L.Add()([x, L.MultiHeadAttention(4, 8)(h, h)])
    h = L.Dense(64, activation="gelu")(L.LayerNormalization()(x))
    return keras.Model(given, L.Add()([x, L.Dense(32)(h)]))


def detector() -> Any:
    x = given = keras.Input((64, 64, 3))
    features = []
    for channels in (16, 32, 48):
        x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(channels, 3, strides=2, padding="same")(x)))
        x = L.DepthwiseConv2D(3, padding="same", activation="relu")(x)
        features.append(x)
    x = L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(features[2]), features[1]])
    x = L.Concatenate()([L.Conv2DTranspose(16, 2, strides=2, padding="same")(x), features[0]])
    boxes = L.Reshape((-1, 4))(L.Conv2D(8, 3, padding="same")(x))
    return keras.Model(given, [boxes, L.Reshape((-1, 5))(L.Conv2D(10, 1, activation="sigmoid")(x))])


def unet() -> Any:
    x = given = keras.Input((32, 32, 3))
    a = L.Conv2D(8, 3, padding="same", activation="elu")(x)
    x = L.AveragePooling2D(2)(L.Conv2D(16, 3, padding="same", activation="selu")(L.MaxPool2D(2)(a)))
    x = L.PReLU(shared_axes=[1, 2])(L.SeparableConv2D(24, 3, padding="same")(x))
    return keras.Model(given, L.Conv2D(2, 1, activation="softmax")(L.Concatenate()([a, L.UpSampling2D(4)(x)])))


MODELS: dict[str, Callable[[], Any]] = {
    "mobilenetv2": application("MobileNetV2", 96, alpha=0.35),
    "mobilenetv3": application("MobileNetV3Small", 96),
    "efficientnet": application("EfficientNetB0", 64),
    "resnet50": application("ResNet50", 64),
    "densenet121": application("DenseNet121", 64),
    "detector": detector,
    "unet": unet,
    "transformer": transformer,
    "lstm": recurrent,
    "gru": gated,
}


def converter(name: str, model: Any, shape: list[int]) -> Any:
    """The converter of a model; recurrent layers want constants and a known batch."""
    if name not in ("lstm", "gru"):
        return tf.lite.TFLiteConverter.from_keras_model(model)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    call = tf.function(lambda x: model(x, training=False)).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    return tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(call)])


def convert(name: str, model: Any, kind: str) -> bytes:
    """The file. Raises what the converter raises."""
    shape = [1, *model.inputs[0].shape[1:]]

    def data() -> Iterator[list[np.ndarray]]:
        rng = np.random.default_rng(0)
        for _ in range(8):
            yield [rng.standard_normal(shape).astype("float32")]

    c = converter(name, model, shape)
    if kind != "float":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        c.target_spec.supported_types = [tf.float16]
    if kind.startswith("int"):
        c.representative_dataset = data
        sets = tf.lite.OpsSet
        c.target_spec.supported_ops = [
            sets.TFLITE_BUILTINS_INT8
            if kind == "int8"
            else sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        ]
        c.inference_input_type = c.inference_output_type = tf.int8 if kind == "int8" else tf.int16
    return bytes(c.convert())


def main(folder: Path, names: list[str]) -> None:
    """Convert what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        # The converter ends the process where it should quantise a recurrent layer.
        kinds = KINDS[:3] if name in ("lstm", "gru") else KINDS
        missing = [k for k in kinds if not (folder / f"{name}_{k}.tflite").exists()]
        if not missing:
            continue
        keras.utils.set_random_seed(7)
        model = MODELS[name]()
        for kind in missing:
            try:
                data = convert(name, model, kind)
            except Exception as error:
                print(f"{name} {kind}: TensorFlow does not convert it: {str(error).splitlines()[0][:120]}", flush=True)
                continue
            (folder / f"{name}_{kind}.tflite").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
