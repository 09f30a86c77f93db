"""Measures of cost models."""

from __future__ import annotations

from typing import Any

import numpy as np


def max_curve(trial_scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The best score after each trial, of shape (trials,): the running maximum, at least 0."""
    found: np.ndarray[Any, Any] = np.maximum.accumulate(np.maximum(np.asarray(trial_scores, np.float64), 0.0))
    return found
