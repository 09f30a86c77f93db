"""Fourier transforms: turns come from tables."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, topi


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [8, 30, 300])
def test_transforms_are_those_of_numpy(n: int, inverse: bool) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))
    parts = [relay.var(name, shape=x.shape) for name in ("re", "im")]
    function = relay.Function(parts, relay.dft(*parts, inverse).astuple())
    got = relay.create_executor("graph", tvm.IRModule.from_expr(function)).evaluate()(
        x.real.astype("float32"), x.imag.astype("float32")
    )
    want = np.fft.ifft(x) if inverse else np.fft.fft(x)
    np.testing.assert_allclose(got[0].numpy() + 1j * got[1].numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_sum_has_no_sines_of_its_own() -> None:
    """In the tiles of a sum each of them is repeated: such kernels took 15 seconds to compile, and 30 times as long to run."""
    n = 8
    data = [te.placeholder((7, n), name=name) for name in ("re", "im")]
    made = topi.signal.dft(*data, False)
    text = str(te.create_prim_func([*data, *made]))
    assert text.count("T.sin") == text.count("T.cos") == 4  # of the two tables
