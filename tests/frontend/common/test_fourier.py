"""Transforms of sizes that are products of a table, of two, or a loop: against NumPy in float64. (Other runtimes are further from it than
these are, by up to a hundred times where a size is not a power of two.)"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from onnx import parser

import tilewright as tvm
from tilewright import relay
from tilewright.support.errors import TVMError


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("size", [1, 6, 257, 675, 1031, 2048])
def test_transforms(size: int, inverse: int) -> None:
    text = f"g (float[b, {size}, 2] x) => (float[b, {size}, 2] z) {{ z = DFT <inverse = {inverse}> (x) }}"
    mod, _ = relay.frontend.from_onnx(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text))
    x = np.random.default_rng(size).standard_normal((3, size, 2), dtype=np.float32)
    found = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(x).numpy()
    values = x[..., 0] + 1j * x[..., 1].astype(np.float64)
    wanted = np.fft.ifft(values) if inverse else np.fft.fft(values)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), rtol=0, atol=3e-6 * scale)


@pytest.mark.parametrize("size", [1 << 30, (1 << 61) - 1])
def test_sizes_whose_tables_no_memory_holds(size: int) -> None:
    """The second is a prime, whose factors would take minutes to find."""
    text = f"g (float[1, {size}, 2] x) => (float[1, {size}, 2] z) {{ z = DFT (x) }}"
    with pytest.raises(TVMError) if size > 1 << 40 else nullcontext():
        relay.frontend.from_onnx(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text))
