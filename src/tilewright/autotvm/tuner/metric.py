"""How well predictions rank trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.utils import get_rank

Values = np.ndarray[Any, Any]


def max_curve(trial_scores: Sequence[float]) -> Values:
    """The best score of each trial and those before."""
    return np.maximum.accumulate(np.asarray(trial_scores, dtype=float))


def mean_curve(trial_scores: Sequence[float]) -> Values:
    """The mean score of each trial and those before."""
    scores = np.asarray(trial_scores, dtype=float)
    means: Values = np.cumsum(scores) / np.arange(1, len(scores) + 1)
    return means


def recall_curve(trial_ranks: Sequence[int], top: int | None = None) -> Values:
    """For each n: how many of the n best (of the `top` best) are among the first n trials, as a share. Ranks begin with 1."""
    ranks = np.asarray(trial_ranks)
    return np.array([np.sum(ranks[:n] <= (top or n)) / (top or n) for n in range(1, len(ranks) + 1)])


def cover_curve(trial_ranks: Sequence[int]) -> Values:
    """For each n: how many of the best, without a gap, are among the first n trials, as a share of n."""
    ranks = np.asarray(trial_ranks)
    found = []
    for n in range(1, len(ranks) + 1):
        seen = set(ranks[:n].tolist())
        covered = next(i for i in range(1, n + 2) if i not in seen) - 1
        found.append(covered / n)
    return np.array(found)


def average_recall(preds: Sequence[float], labels: Sequence[float], N: int) -> float:
    """The mean of the recall curve over the N trials with the highest predictions."""
    order = np.argsort(-np.asarray(preds, dtype=float), kind="stable")
    return float(np.mean(recall_curve(get_rank(np.asarray(labels)[order].tolist()).tolist())[:N]))
