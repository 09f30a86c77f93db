"""Quantised forms of the benchmark models, as ONNX Runtime's own quantiser makes them: post-training, static, 8 bits.

Activations are uint8 with zero points, weights int8 with one scale for each channel, between QuantizeLinear and DequantizeLinear: the
form that ONNX Runtime recommends for CPUs with dot products of bytes.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 3


class _Samples:
    """What the quantiser reads ranges of activations from."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self.rest: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rest, None)


def calibration(inputs: dict[str, np.ndarray], count: int = SAMPLES) -> list[dict[str, np.ndarray]]:
    """Inputs like the given ones, other numbers: floats drawn alike, integers (tokens) in another order."""
    rng = np.random.default_rng(1)

    def other(value: np.ndarray) -> np.ndarray:
        if value.dtype.kind == "f":
            return rng.standard_normal(value.shape).astype(value.dtype)
        return rng.permutation(value.reshape(-1)).reshape(value.shape)

    return [inputs] + [{name: other(value) for name, value in inputs.items()} for _ in range(count - 1)]


def quantize(source: Path, target: Path, inputs: dict[str, np.ndarray]) -> None:
    """Writes the quantised form of an ONNX model, its ranges those that the inputs and others like them give."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        reader: Any = _Samples(calibration(inputs))
        quantize_static(
            str(prepared),
            str(target),
            reader,
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
