"""Floats rounded to bytes when the program runs (dynamic range): the integers that LiteRT's reference kernels multiply, every one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.tflite.ops.samples import F
from tests.frontend.tflite.ops.writer import Writer, litert, ours
from tests.frontend.tflite.whole import compiled

EXAMPLES, EACH = 32, 2280


def borders(symmetric: bool) -> np.ndarray:
    """Examples of their own ranges, with zero points near halves: both ends, and the floats around every border between two bytes."""
    rng, found = np.random.default_rng(0), []
    for k in range(EXAMPLES):
        least, most = np.array([-(7.5 * k + 0.5), 254.5 - 7.5 * k]) * rng.uniform(0.001, 0.1)
        ends = np.array([least, most], np.float32)
        if symmetric:
            step = np.abs(ends).max() / 127
            centres = (np.arange(-127, 127) + 0.5) * step
        else:
            step = (float(ends[1]) - float(ends[0])) / 255
            zero = -128 - float(ends[0]) / step
            zero = [np.floor(zero + 0.5), np.ceil(zero - 0.5)][k % 2]
            centres = (np.arange(-128, 127) + 0.5 - zero) * step
        near = centres.astype(np.float32)
        rows = [near]
        for towards in (-np.inf, np.inf):
            at = near
            for _ in range(4):
                at = np.nextafter(at, np.float32(towards))
                rows.append(at)
        inside = np.clip(np.concatenate(rows), *ends)
        found.append(np.concatenate([ends, rng.permutation(inside)[: EACH - 2]]))
    return np.stack(found)


def depthwise(x: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Images of four channels by one weight each."""
    w = Writer(6)
    x = x.reshape(EXAMPLES, 1, -1, 4)
    weights = w.main.constant(
        np.full((1, 1, 1, 4), 127, np.int8), (np.array([0.5, 0.25, 0.3, 0.7], np.float32), np.zeros(4, np.int64), 3)
    )
    sums = [w.main.input(F, x.shape), weights, w.main.constant(np.zeros(4, np.float32))]
    options = {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1}
    return w.finish(w.main.op("DEPTHWISE_CONV_2D", sums, [(F, x.shape)], options, "DepthwiseConv2DOptions")), x


def dense(x: np.ndarray, asymmetric: bool) -> tuple[bytes, np.ndarray]:
    """One number in four of each row, and its ends, by the identity."""
    x = np.concatenate([x[:, :2], x[:, 2::4]], axis=1)
    w, n = Writer(9), x.shape[1]
    weights = w.main.constant(np.eye(n, dtype=np.int8), (np.float32(0.3), 0))
    sums = [w.main.input(F, x.shape), weights, w.main.constant(np.zeros(n, np.float32))]
    options = {"asymmetric_quantize_inputs": asymmetric}
    return w.finish(w.main.op("FULLY_CONNECTED", sums, [(F, x.shape)], options, "FullyConnectedOptions")), x


@pytest.mark.parametrize("kind", ["depthwise", "symmetric", "asymmetric"])
def test_every_number_is_rounded_as_in_litert(kind: str, tmp_path: Path) -> None:
    x = borders(kind == "symmetric")
    data, x = depthwise(x) if kind == "depthwise" else dense(x, kind == "asymmetric")
    (wanted,) = litert(data, [x])
    (tmp_path / "m.tflite").write_bytes(data)
    (found,) = compiled(tmp_path / "m.tflite", {"x0": x})
    for answer in (found, ours(data, [x])[0]):
        np.testing.assert_array_equal(answer, wanted)
