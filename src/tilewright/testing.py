"""What tests of compiled programs use."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raises AssertionError when shapes differ, or values by more than `atol + rtol * abs(desired)`."""
    left, right = (x.numpy() if hasattr(x, "numpy") else np.asanyarray(x) for x in (actual, desired))
    np.testing.assert_allclose(left.shape, right.shape, err_msg="shapes")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=True)
