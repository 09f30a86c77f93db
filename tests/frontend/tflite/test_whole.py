"""What `make test-tflite` says of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.tflite import whole as tflite_whole
from tests.frontend.tflite.ops.samples import F
from tests.frontend.tflite.ops.writer import Writer


def layers(path: Path, second: int) -> Path:
    """Two products with int8 weights, those of the second a multiple of the identity."""
    w, rng = Writer(9), np.random.default_rng(0)
    (x,) = [w.main.input(F, (2, 8))]
    for weights in (rng.integers(-127, 128, (8, 8)), np.full((8, 8), second) * np.eye(8)):
        weights = w.main.constant(weights.astype(np.int8), (np.float32(0.01), 0))
        options = {"asymmetric_quantize_inputs": True}
        (x,) = w.main.op("FULLY_CONNECTED", [x, weights, -1], [(F, (2, 8))], options, "FullyConnectedOptions")
    path.write_bytes(w.finish([x]))
    return path


def test_a_whole_file_is_cut_where_floats_are_rounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tflite_whole.main([str(layers(tmp_path / "m.tflite", 3))]) == 0
    assert "cut before each of 1 roundings" in capsys.readouterr().out


def test_an_answer_that_says_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tflite_whole.main([str(layers(tmp_path / "m.tflite", 0))]) == 1
    assert capsys.readouterr().out.startswith("EMPTY m.tflite")
