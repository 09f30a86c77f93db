"""LSTM in integers: LiteRT's bits, with all parts that its kernel has but layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.writer import Writer, litert, ours

STEPS, BATCH, FEATURES = 3, 2, 7
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "time major": {"major": True},
    "coupled": {"coupled": True},
    "peepholes": {"peepholes": True},
    "projection": {"projected": 3, "clip": 0.4},
    "all": {"projected": 6, "peepholes": True, "coupled": True, "clip": 0.9, "exponent": -9},
    "fine cell": {"exponent": -15},
}


def model(
    seed: int, major: bool = False, coupled: bool = False, peepholes: bool = False, projected: int = 0, clip: float = 0.0,
    exponent: int = -11, cells: int = 6,
) -> bytes:  # fmt: skip
    """A sequence of an LSTM with random weights and zero points."""
    random, w = np.random.default_rng(seed), Writer(3)
    g, outputs = w.main, projected or cells
    x_scale, h_scale = 0.021, 0.0083
    x_zero, h_zero = int(random.integers(-20, 20)), int(random.integers(-20, 20))

    def weights(rows: int, columns: int) -> int:
        return g.constant(random.integers(-127, 128, (rows, columns)).astype(np.int8), (random.uniform(0.003, 0.02), 0))

    def numbers(count: int, scale: float) -> int:
        return g.constant(random.integers(-900, 900, count).astype(np.int32), (scale, 0))

    shape = (STEPS, BATCH, FEATURES) if major else (BATCH, STEPS, FEATURES)
    inputs = [g.input("int8", shape, (x_scale, x_zero))]
    for columns in (FEATURES, outputs):
        inputs += [-1 if coupled and k == 0 else weights(cells, columns) for k in range(4)]
    for k in range(3):
        seen = random.integers(-9000, 9000, cells).astype(np.int16)
        inputs.append(g.constant(seen, (2.0**-13, 0)) if peepholes and not (coupled and k == 0) else -1)
    inputs += [-1 if coupled and k == 0 else numbers(cells, x_scale * 0.01) for k in range(4)]
    inputs += [weights(outputs, cells), numbers(outputs, 1e-4)] if projected else [-1, -1]
    inputs.append(g.tensor("h", "int8", (BATCH, outputs), (h_scale, h_zero), isVariable=True))
    inputs.append(g.tensor("c", "int16", (BATCH, cells), (2.0**exponent, 0), isVariable=True))
    inputs += [-1] * 4
    hidden = (0.0074, int(random.integers(-30, 30))) if projected else (h_scale, h_zero)
    between = [g.tensor(f"between{k}", "int16", (), (2.0**-12, 0)) for k in range(4)]
    between.append(g.tensor("between4", "int8", (), hidden))
    options = {"fused_activation_function": 4, "time_major": major, "cell_clip": clip, "proj_clip": clip}
    made = (*shape[:2], outputs)
    result = g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [("int8", made, (h_scale, h_zero))], options,
                  "UnidirectionalSequenceLSTMOptions", intermediates=between)  # fmt: skip
    return w.finish(result)


@pytest.mark.parametrize("form", list(FORMS))
def test_bits(form: str) -> None:
    how = FORMS[form]
    for seed in range(2 if form == "plain" else 1):
        data = model(seed, **how)
        shape = (STEPS, BATCH, FEATURES) if how.get("major") else (BATCH, STEPS, FEATURES)
        x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
        (wanted,), (found,) = litert(data, [x]), ours(data, [x])
        assert len(np.unique(wanted)) > 8
        np.testing.assert_array_equal(found, wanted)
