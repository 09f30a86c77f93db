"""How well scores rank programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def correlation(scores: Sequence[float], ratios: Sequence[float]) -> float:
    """Spearman's: that of the ranks, those of equal numbers being their mean. 0 where all scores are equal."""
    a, b = _ranks(scores), _ranks(ratios)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def regret(scores: Sequence[float], ratios: Sequence[float], count: int, draws: int = 200, seed: int = 0) -> float:
    """What is lost by taking the program with the best score of `count` that are drawn, as a share of the best throughput among them: the
    mean over the draws."""
    random = np.random.default_rng(seed)
    score, ratio = np.asarray(scores), np.asarray(ratios)
    lost = []
    for _ in range(draws):
        some = random.choice(len(ratio), min(count, len(ratio)), replace=False)
        lost.append(1 - ratio[some[np.argmax(score[some])]] / ratio[some].max())
    return float(np.mean(lost))


def _ranks(values: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = ends - (counts - 1) / 2
    return mean[place]
