"""Gradient boosted trees over rows, where a program's score is the sum over its rows; the prior, which is such trees."""

from __future__ import annotations

import lzma
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from tilewright.support.errors import TVMError
from tilewright.tuning.features import COLUMNS, Rows

Vector = np.ndarray[Any, np.dtype[np.float64]]

PRIOR = "prior.ubj.xz"
"""Trees as UBJSON, compressed, beside this module. `python -m benchmarks tuning_prior` makes it."""

PARAMETERS: dict[str, Any] = {
    "max_depth": 4,
    "eta": 0.05,
    "subsample": 0.6,
    "colsample_bynode": 0.2,
    "min_child_weight": 8,
    "max_bin": 64,
    "tree_method": "hist",
    "base_score": 0.0,
    "disable_default_eval_metric": True,
    "verbosity": 0,
    "seed": 0,
}
"""Small trees, each of a part of the programs and of the columns: they ranked programs best that were not measured."""


class Forest:
    """Trees. workers: threads that they are evaluated by."""

    def __init__(self, booster: Any, workers: int | None = None) -> None:
        self._booster = booster
        booster.set_param({"nthread": workers or free_threads()})

    def scores(self, rows: Sequence[Rows]) -> Vector:
        """The score of each program."""
        data, owners = _joined(rows)
        if not len(data):
            return np.zeros(len(rows))
        values = self._booster.inplace_predict(data, predict_type="margin")
        sums: Vector = np.bincount(owners, weights=values, minlength=len(rows)).astype(np.float64)
        return sums

    def dump(self) -> bytes:
        """The trees as a file."""
        return lzma.compress(bytes(self._booster.save_raw("ubj")), preset=9)


def load(data: bytes) -> Forest:
    """The trees that `dump` wrote. Raises TVMError for others, and where xgboost is missing."""
    try:
        booster = xgboost().Booster()
        booster.load_model(bytearray(lzma.decompress(data)))
    except (lzma.LZMAError, ValueError) as error:
        raise TVMError(f"these are no trees of a cost model: {error}") from error
    if booster.num_features() != len(COLUMNS):
        raise TVMError(
            f"these trees are over {booster.num_features()} features, but programs have {len(COLUMNS)}:"
            " train them again (python -m benchmarks tuning_prior)"
        )
    return Forest(booster)


@cache
def prior() -> Forest:
    """The trees that come with the package. Raises TVMError where xgboost is missing."""
    return load((files("tilewright.tuning") / PRIOR).read_bytes())


def train(
    rows: Sequence[Rows],
    targets: Vector,
    rounds: int,
    workers: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Forest:
    """Trees for which the sums over the rows of programs come near to the targets. options: parameters of xgboost, where they are not
    PARAMETERS."""
    xgb = xgboost()
    data, owners = _joined(rows)
    counts = np.bincount(owners, minlength=len(rows))

    def objective(values: Any, _: Any) -> tuple[Any, Any]:
        over = np.bincount(owners, weights=values, minlength=len(rows)) - targets
        # All rows of a program change at once, so each takes its part of the step.
        return over[owners], counts[owners].astype(np.float64)

    parameters = {**PARAMETERS, **(options or {}), "nthread": workers or free_threads()}
    matrix = xgb.QuantileDMatrix(data, max_bin=parameters["max_bin"], nthread=parameters["nthread"])
    return Forest(xgb.train(parameters, matrix, rounds, obj=objective), workers)


def _joined(rows: Sequence[Rows]) -> tuple[Rows, np.ndarray[Any, np.dtype[np.intp]]]:
    """The rows of all programs, and the number of the program of each."""
    owners = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    return np.concatenate(rows) if rows else np.zeros((0, len(COLUMNS)), np.float32), owners


def free_threads() -> int:
    """Threads for training: one less than there are, since measurements may run."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(count - 1, 1)


def xgboost() -> Any:
    """The library. Raises TVMError where it is missing."""
    try:
        import xgboost as library
    except ImportError as error:
        raise TVMError(
            "boosted trees need xgboost, which is not installed: pip install 'tilewright[tune]', or use"
            " tuning.cost_model.AnalyticModel"
        ) from error
    return library


__all__ = ["Forest", "load", "prior", "train", "xgboost"]
