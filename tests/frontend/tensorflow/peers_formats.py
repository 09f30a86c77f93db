"""Keras's architectures in every format they are saved in (make test-tensorflow): the same model gives the same answers, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.frontend.tensorflow.peers import Array, tf
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.frontend.tensorflow import from_tensorflow

keras = tf.keras
APPLICATIONS = (
    "MobileNetV2", "ResNet50V2", "DenseNet121", "EfficientNetV2B0", "InceptionV3", "Xception", "ConvNeXtTiny", "NASNetMobile",
    "MobileNetV3Small", "VGG16",
)  # fmt: skip
FORMATS = ("live", "keras", "h5", "saved", "tflite")


def compiled(mod: Any, params: Mapping[str, Any], image: Array) -> Array:
    lib = relay.build(mod, target="llvm", params=dict(params))
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.set_input(0, image)
    run.run()
    return np.asarray(run.get_output(0).numpy())


def imported(model: Any, form: str, shape: tuple[int, ...], folder: Path) -> tuple[Any, Any]:
    """A model saved in a format, and imported from it."""
    name = model.layers[0].name
    if form == "live":
        return relay.frontend.from_keras(model, shape={name: shape}, layout="NHWC")  # type: ignore[no-any-return]
    if form in ("keras", "h5"):
        model.save(folder / f"m.{form}")
        return relay.frontend.from_keras(folder / f"m.{form}", shape={name: shape}, layout="NHWC")  # type: ignore[no-any-return]
    if form == "saved":
        model.export(str(folder / "saved"), verbose=False)
        signature = tf.saved_model.load(str(folder / "saved")).signatures["serving_default"]
        (given,) = signature.structured_input_signature[1]
        return from_tensorflow(folder / "saved", "NCHW", {given: shape})
    data = bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    (given,) = tf.lite.Interpreter(model_content=data).get_input_details()
    mod, params = relay.frontend.from_tflite(data, shape_dict={given["name"]: shape})
    wanted = {"nn.conv2d": ["NCHW", "default"]}
    return relay.transform.ConvertLayout(wanted)(mod), params


@pytest.mark.parametrize("name", APPLICATIONS)
def test_formats(name: str, tmp_path: Path) -> None:
    size = 75 if name in ("InceptionV3", "Xception") else 64
    shape = (1, size, size, 3)
    keras.utils.set_random_seed(7)
    model = getattr(keras.applications, name)(weights=None, input_shape=shape[1:], include_top=False, pooling="avg")
    rng = np.random.default_rng(0)
    for w in model.weights:
        if "variance" in w.name:
            w.assign(rng.uniform(0.5, 1.5, w.shape).astype("float32"))
        elif "mean" in w.name or "beta" in w.name or "gamma" in w.name:
            w.assign((np.asarray(w) + rng.standard_normal(w.shape) * 0.1).astype("float32"))
    image = (
        rng.uniform(0, 255, shape).astype("float32") if "Net" in name else rng.standard_normal(shape).astype("float32")
    )
    want = model(image, training=False).numpy()
    wrong = []
    for form in FORMATS:
        found = compiled(*imported(model, form, shape, tmp_path), image)
        error = float(np.abs(found - want).max() / np.abs(want).max())
        print(f"{name} {form}: {error:.1e}", flush=True)
        if not error < 1e-4:
            wrong.append(f"{form}: {error:.1e}")
    assert not wrong
