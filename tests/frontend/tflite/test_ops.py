"""Every operator of the TFLite importer against LiteRT's reference kernels: floats closely, integers bit by bit."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.frontend.tflite.ops import quantised, recurrent_and_images  # noqa: F401 (samples)
from tests.frontend.tflite.ops.samples import SAMPLES
from tests.frontend.tflite.ops.writer import NEWEST, litert, ours

SUMS = {n for n in SAMPLES if n.split("-")[:2] in (["int8", "SUM"], ["int16", "SUM"])}
DEFAULT = {"LRN", *SUMS}
"""Compared with the default kernels: the reference's window lacks its last element, and its sums of signed numbers are none."""
DELEGATED = {"TransposeBias-1", "TransposeBias-2"}
"""Operators that only XNNPACK has."""
NEARLY = {*SUMS, "int8-DIV", "uint8-L2_NORMALIZATION"}
"""One unit apart here and there (docs/tflite.md)."""


@functools.cache
def reference(name: str) -> tuple[bytes, list[np.ndarray], list[np.ndarray]]:
    """(model, inputs, LiteRT's answer), at the first version of the operator that it takes: by the reference kernel where there is one."""
    errors = []
    for optimised in (False, True)[name in DEFAULT :]:
        for version in range(1, NEWEST):
            data, inputs = SAMPLES[name](version)
            try:
                return data, inputs, litert(data, inputs, optimised, delegates=name in DELEGATED)
            except (RuntimeError, ValueError) as error:
                errors.append(str(error))
    raise AssertionError("\n".join(dict.fromkeys(errors)))


@pytest.mark.parametrize("name", SAMPLES)
def test_operator(name: str) -> None:
    data, inputs, wanted = reference(name)
    found = ours(data, inputs)
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        assert f.shape == w.shape and f.dtype == w.dtype
        if w.dtype.kind == "f":
            np.testing.assert_allclose(f, w, rtol=2e-5, atol=2e-6)
        elif name in NEARLY:
            assert np.abs(f.astype(np.int64) - w).max() <= 1
        else:
            np.testing.assert_array_equal(f, w)
