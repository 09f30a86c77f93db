"""What a run's result says in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tilewright.driver.tvmc.model import TVMCResult


def get_top_results(result: TVMCResult, max_results: int) -> np.ndarray[Any, Any]:
    """The largest values of the first output's first row, best first: a row of their places, and a row of the values."""
    scores = np.asarray(result.outputs["output_0"])
    row = scores.reshape(scores.shape[0], -1)[0] if scores.ndim > 1 else scores.reshape(-1)
    best = np.argsort(row)[::-1][:max_results]
    return np.array([best, row[best]])
