"""Measurements of one kernel, as cost models keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FAILED = 1e10
"""The cost of a schedule that has no time."""


class FeatureGroup:
    """The features and the costs of the schedules of a kernel.

    group_hash: of the kernel. features: a (rows, columns) array of each schedule. costs: seconds of each, of shape (schedules,).
    min_cost: of the fastest.
    """

    def __init__(self, group_hash: str, features: Sequence[Array], costs: Array) -> None:
        if len(features) != len(costs):
            raise ValueError(f"each schedule has features and a cost, but there are {len(features)} and {len(costs)}")
        self.group_hash, self.features, self.costs = group_hash, list(features), np.asarray(costs)
        self.min_cost = float(np.min(self.costs)) if len(self.costs) else float("inf")

    def append(self, features: Sequence[Array], costs: Array) -> None:
        """Adds schedules."""
        if len(features) != len(costs):
            raise ValueError(f"each schedule has features and a cost, but there are {len(features)} and {len(costs)}")
        self.features = [*self.features, *features]
        self.costs = np.append(self.costs, costs)
        self.min_cost = float(np.min(self.costs)) if len(self.costs) else float("inf")

    @property
    def scores(self) -> Array:
        """The throughput of each schedule as a part of that of the fastest; 0 of those that failed."""
        return scores_of(self.costs, self.min_cost)


def scores_of(costs: Array, fastest: float) -> Array:
    """Throughputs as parts of that of the fastest schedule, float32; 0 of those that failed."""
    return np.where(costs >= FAILED, 0.0, fastest / costs).astype(np.float32)
