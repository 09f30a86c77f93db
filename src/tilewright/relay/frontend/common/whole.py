"""Integer arithmetic of constant folding, with the rules of the operators: a quotient or remainder by 0 is 0, and an index outside
of the range becomes the nearest valid one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.op.movement.indexing import within


def floored(a: Any, b: Any) -> Any:
    """a / b rounded down, for numbers and for symbolic sizes."""
    return 0 if isinstance(b, int) and b == 0 else a // b


def truncated(a: Any, b: Any) -> Any:
    """a / b rounded towards zero; symbolic sizes are not negative."""
    if not isinstance(a, int) or not isinstance(b, int):
        return floored(a, b)
    quotient = floored(abs(a), abs(b))
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: Any, b: Any) -> Any:
    """The remainder that belongs to `floored`."""
    return 0 if isinstance(b, int) and b == 0 else a % b


def each(f: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """f of the pairs of elements of two arrays of numbers or symbolic sizes, as an array of objects."""
    x, y = np.broadcast_arrays(a, b)
    made = np.empty(x.shape, object)
    made.reshape(-1)[:] = [f(p, q) for p, q in zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)]
    return made


def taken(x: np.ndarray, indices: np.ndarray, axis: int, below: bool) -> np.ndarray:
    """x[.., indices, ..] along an axis. below: negative indices count from the end."""
    extent = x.shape[axis]
    places = within(indices, extent) if below else np.clip(indices.astype(np.int64), 0, extent - 1)
    return np.asarray(np.take(x, places, axis))
