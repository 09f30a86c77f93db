"""Products of small constant matrices and vectors, written out: zeros and ones cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.topi.lang import tir


def row_of_product(matrix: np.ndarray, index: Any, value: Callable[[int], Any]) -> Any:
    """Row `index` of a matrix times the vector value(0), value(1), ...; the index is a constant once loops are unrolled."""
    *rows, found = [_sum(row, value) for row in matrix]
    for r in reversed(range(len(rows))):
        found = tir.Select(tir.EQ(index, r), rows[r], found)
    return found


def _sum(factors: np.ndarray, value: Callable[[int], Any]) -> Any:
    total: Any = None
    for k, f in enumerate(factors):
        if f == 0:
            continue
        v = value(k)
        term = v if abs(f) == 1 else v * tir.const(abs(float(f)), v.dtype)
        if total is None:
            total = term if f > 0 else tir.const(0, v.dtype) - term
        else:
            total = total + term if f > 0 else total - term
    return total
