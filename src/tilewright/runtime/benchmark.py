"""Timing results of time_evaluator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class BenchmarkResult:
    """Seconds per call over the repeats: mean, median, min, max, std, results."""

    def __init__(self, results: Sequence[float]) -> None:
        self.results = tuple(results)
        self.mean = float(np.mean(self.results))
        self.median = float(np.median(self.results))
        self.min = float(np.min(self.results))
        self.max = float(np.max(self.results))
        self.std = float(np.std(self.results))

    def __repr__(self) -> str:
        return (
            f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, "
            f"max={self.max}, std={self.std}, results={self.results})"
        )

    def __str__(self) -> str:
        """Execution time summary, in milliseconds, as classic TVM prints it."""
        names = ("mean (ms)", "median (ms)", "max (ms)", "min (ms)", "std (ms)")
        values = (self.mean, self.median, self.max, self.min, self.std)
        header = " ".join(f"{name:^12}" for name in names)
        row = " ".join(f"{value * 1e3:^12.4f}" for value in values)
        return f"Execution time summary:\n{header} \n{row} \n"
