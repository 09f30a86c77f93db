"""The parameters of XGBModel, and how programs of several rows are learned from by models of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.meta_schedule.cost_model.metric import max_curve
from tilewright.tuning.trees import xgboost

Array = np.ndarray[Any, Any]


class XGBConfig(NamedTuple):
    """Parameters of boosted trees, by xgboost's names. nthread: None: as XGBModel says. tree_method: no effect: trees are of the kind
    "hist"."""

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str = "auto"

    def to_dict(self) -> dict[str, Any]:
        """The parameters by name."""
        return self._asdict()


class PackSum:
    """Programs, each of which has several rows: its score is the sum of those of its rows.

    xs: a (rows, columns) array of each program. ys: the scores of the programs, (programs,); None where they are not known. dmatrix: the
    rows, each with the score of its program, as xgboost takes them: raises TVMError where xgboost is missing. ids: the program of each
    row.
    """

    def __init__(self, xs: Sequence[Array], ys: Array | None) -> None:
        counts = [len(x) for x in xs]
        self.ids = np.repeat(np.arange(len(xs)), counts)
        self.ys = None if ys is None else np.asarray(ys, np.float64)
        if self.ys is not None and len(self.ys) != len(xs):
            raise ValueError(f"each program has a score, but there are {len(xs)} and {len(self.ys)}")
        labels = None if self.ys is None else self.ys[self.ids]
        self.dmatrix = xgboost().DMatrix(np.concatenate(list(xs)), label=labels)

    def predict_with_score(self, pred: Array) -> Array:
        """The score of each program. pred: of each row."""
        found: Array = np.bincount(self.ids, weights=pred)
        return found

    def obj_square_error(self, ys_pred: Array) -> tuple[Array, Array]:
        """The gradient and the Hessian of half the squared error of programs' scores, for each row. ys_pred: of each row."""
        gradient = self._errors(ys_pred)[self.ids]
        return gradient, np.ones_like(gradient)

    def rmse(self, ys_pred: Array) -> tuple[str, float]:
        """("p-rmse", the root of the mean squared error of programs' scores)."""
        return "p-rmse", float(np.sqrt(np.mean(np.square(self._errors(ys_pred)))))

    def average_peak_score(self, ys_pred: Array, n: int) -> tuple[str, float]:
        """("a-peak@n", how near the n programs that are predicted to be the best come to the best: the mean, over their number, of the
        best score among so many of them, as a part of the best)."""
        self._errors(ys_pred)
        assert self.ys is not None
        chosen = np.argsort(self.predict_with_score(ys_pred))[::-1][:n]
        return f"a-peak@{n}", float(np.mean(max_curve(self.ys[chosen]) / np.max(self.ys)))

    def _errors(self, ys_pred: Array) -> Array:
        if self.ys is None:
            raise ValueError("predictions are compared with the scores of programs, which this PackSum was not given")
        found: Array = self.predict_with_score(ys_pred) - self.ys
        return found


def make_metric_sorter(focused_metric: str) -> Callable[[tuple[str, Any]], str]:
    """A key by which pairs (name of a measure, value) are sorted by name, one of them first."""
    return lambda pair: f"!{pair[0]}" if pair[0] == focused_metric else pair[0]
