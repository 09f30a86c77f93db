"""Trained models of the packages cifar-10-model (Keras, CIFAR-10) and pymicro-wakeword (TFLite), and pictures of other packages.

The Keras network is quantised here as converters of TFLite do: normalisations are folded into the weights behind them, weights get a scale
for each filter, activations one that some pictures decide. `pip install --no-deps cifar-10-model pymicro-wakeword` brings both; neither
is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.micro.tiny_networks import Network, Weights, cifar
from tilewright.formats.hdf5.file import opened

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = (1.0, -128)
"""Scale and zero point of pixels from 0 to 255, which the network takes as they are."""
EPSILON = 1e-3
"""What Keras adds to variances."""
PICTURES = ("chelsea", "rocket", "astronaut", "coffee", "retina", "hubble_deep_field")
"""Photographs that scikit-image holds: of a cat (chelsea), and of what CIFAR-10 has no class for."""
CAT = PICTURES[0]


def package_file(package: str, path: str) -> Path:
    """A file of an installed package. Raises FileNotFoundError where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.origin).parent / path


def keras_file() -> Path:
    """The trained network of cifar-10-model."""
    return package_file("cifar_10_model", "trained_models/cnn_model.h5")


def wake_word_models() -> list[Path]:
    """The models of pymicro-wakeword."""
    return sorted(package_file("pymicro_wakeword", "models").glob("*.tflite"))


def folded_weights(path: Path) -> list[Weights]:
    """The weights of the layers without normalisations. That is exact: gains go into the weights before the ReLU, since none is
    negative, and shifts into the bias of the layer after it, since no convolution pads."""
    group = opened(memoryview(path.read_bytes()))["model_weights"]

    def values(name: str, *parts: str) -> list[np.ndarray]:
        return [group[f"{name}/{name}/{part}:0"].array().astype("float64") for part in parts]

    found: list[Weights] = []
    shift = np.zeros(3)
    for k in range(6):
        behind = f"_{k}" if k else ""
        weight, bias = values(f"conv2d{behind}", "kernel", "bias")
        gamma, beta, mean, variance = values(
            f"batch_normalization{behind}", "gamma", "beta", "moving_mean", "moving_variance"
        )
        gain = gamma / np.sqrt(variance + EPSILON)
        if gain.min() < 0:
            raise ValueError(
                f"{path}: batch_normalization{behind} has negative gains, with which a ReLU does not commute"
            )
        found.append((weight * gain, (bias + np.einsum("hwco,c->o", weight, shift)) * gain))
        shift = beta - mean * gain
    for k in range(3):
        weight, bias = values(f"dense_{k}" if k else "dense", "kernel", "bias")
        found.append((weight, bias + shift @ weight))
        shift = np.zeros(weight.shape[1])
    return found


class Pictures(NamedTuple):
    """pixels: (count, 32, 32, 3), from 0 to 255; sources: the photograph of each."""

    pixels: np.ndarray
    sources: list[str]


def pictures(count: int, seed: int) -> Pictures:
    """Square parts of photographs at random places, as CIFAR-10's are: 32 x 32 pixels."""
    from skimage import data, transform

    random, pixels, sources = np.random.default_rng(seed), [], []
    photographs = {name: np.asarray(getattr(data, name)()) for name in PICTURES}
    for k in range(count):
        name = PICTURES[k % len(PICTURES)]
        photograph = photographs[name]
        height, width = photograph.shape[:2]
        side = int(random.integers(min(height, width) // 2, min(height, width) + 1))
        top, left = int(random.integers(height - side + 1)), int(random.integers(width - side + 1))
        part = photograph[top : top + side, left : left + side, :3]
        made = transform.resize(part, (32, 32), anti_aliasing=True, preserve_range=True)
        pixels.append(np.clip(np.rint(made), 0, 255).astype(np.uint8))
        sources.append(name)
    return Pictures(np.stack(pixels), sources)


def quantised(weights: Sequence[Weights], calibration: np.ndarray) -> Network:
    """The network in int8, with activations scaled by what the calibration pictures (count, 32, 32, 3) have."""
    spans: list[float] = []
    for picture in calibration:
        found = cifar(_empty(picture), weights).found
        spans = [max(pair) for pair in zip(spans or found, found, strict=True)]
    return cifar(_empty(calibration[0], spans), weights)


def _empty(picture: np.ndarray, spans: Sequence[float] | None = None) -> Network:
    return Network("cifar", (32, 32, 3), quant=PIXELS, sample=as_input(picture), spans=spans)


def as_input(picture: np.ndarray) -> np.ndarray:
    """A picture as the quantised network takes it: (1, 32, 32, 3) of int8."""
    return (picture.astype(np.int16) + PIXELS[1]).astype(np.int8)[None]


__all__ = [
    "CAT",
    "CLASSES",
    "Pictures",
    "as_input",
    "folded_weights",
    "keras_file",
    "pictures",
    "quantised",
    "wake_word_models",
]
