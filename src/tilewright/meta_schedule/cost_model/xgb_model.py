"""The engine's cost model under its classic name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from tilewright.meta_schedule.cost_model.cost_model import CostModel, Scores
from tilewright.meta_schedule.cost_model.groups import FeatureGroup
from tilewright.meta_schedule.cost_model.xgb_parts import PackSum, XGBConfig, make_metric_sorter
from tilewright.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature
from tilewright.meta_schedule.utils import shash2hex
from tilewright.support.errors import TVMError, said
from tilewright.target import Target
from tilewright.tuning.cost_model import TreeModel, default_model
from tilewright.tuning.features import Rows, features, host_threads
from tilewright.tuning.weight_layouts import without_copies

if TYPE_CHECKING:
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext

__all__ = ["FeatureGroup", "PackSum", "XGBConfig", "XGBModel", "make_metric_sorter"]


class _Learned(NamedTuple):
    """What the model was told of a batch. threads: those that the rows are for."""

    key: str
    rows: list[Rows]
    seconds: list[float]
    threads: int


class XGBModel(CostModel, kind="xgb"):
    """Boosted trees over the features of programs, which start from a prior and learn from measurements; where xgboost is missing, an
    estimate by formulas, which learns nothing (see `tuning.cost_model`).

    num_tuning_cores: threads of training; None: one less than there are. config: an XGBConfig; None: the engine's parameters, which rank
    best here. The features are the engine's: extractor may only be a PerStoreFeature, and num_warmup_samples, early_stopping_rounds,
    verbose_eval, average_peak_n, adaptive_training and tree_method have no effect. Raises ValueError for another extractor.
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | str = "per-store-feature",
        config: XGBConfig | None = None,
        num_warmup_samples: int = 100,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        made = FeatureExtractor.create(extractor) if isinstance(extractor, str) else extractor
        if not isinstance(made, PerStoreFeature):
            raise ValueError(
                f"the trees of XGBModel take the features of PerStoreFeature, but {type(made).__name__} was given:"
                " derive a model from PyCostModel for others"
            )
        self.extractor, self.config, self.num_warmup_samples = made, config, num_warmup_samples
        self.early_stopping_rounds, self.verbose_eval, self.average_peak_n = (
            early_stopping_rounds,
            verbose_eval,
            average_peak_n,
        )
        self.adaptive_training, self.num_tuning_cores, self.tree_method = (
            adaptive_training,
            num_tuning_cores,
            tree_method,
        )
        self._make: Callable[[], Any] = lambda: _engine_model(num_tuning_cores, config)
        self._engine: Any = self._make()
        self._batches: list[_Learned] = []

    def predict(self, context: TuneContext, candidates: list[MeasureCandidate]) -> Scores:
        if not candidates:
            return np.zeros(0)
        return np.array(
            self._engine.predict([without_copies(c.sch.mod) for c in candidates], _target_of(context)), np.float64
        )

    def update(self, context: TuneContext, candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        if not candidates or context.mod is None:
            return
        target = _target_of(context)
        threads = min(host_threads(), target.cpu.threads)
        seconds = [float(np.median(r.run_secs)) if r.run_secs else float("inf") for r in results]
        rows = [features(without_copies(c.sch.mod), target, threads) for c in candidates]
        self._learn(_Learned(shash2hex(context.mod), rows, seconds, threads))

    def _learn(self, batch: _Learned) -> None:
        self._batches.append(batch)
        if isinstance(self._engine, TreeModel):
            self._engine.update_rows(batch.key, batch.rows, batch.seconds, batch.threads)

    def save(self, path: str) -> None:
        """Writes what was learned from."""
        flat = [row for batch in self._batches for row in batch.rows]
        with Path(path).open("wb") as file:
            np.savez_compressed(
                file,
                keys=np.array([b.key for b in self._batches]),
                threads=np.array([b.threads for b in self._batches], np.int64),
                programs=np.array([len(b.rows) for b in self._batches], np.int64),
                seconds=np.array([s for b in self._batches for s in b.seconds], np.float64),
                statements=np.array([len(row) for row in flat], np.int64),
                rows=np.concatenate(flat) if flat else np.zeros((0, 0), np.float32),
            )

    def load(self, path: str) -> None:
        """Learns from what `save` wrote, and from nothing else. Raises TVMError for other files."""
        try:
            with np.load(path, allow_pickle=False) as data:
                found = {name: data[name] for name in ("keys", "threads", "programs", "seconds", "statements", "rows")}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
            raise TVMError(f"{path} is no saved state of an XGBModel: {said(error)}") from error
        rows = np.split(found["rows"], np.cumsum(found["statements"])[:-1]) if len(found["statements"]) else []
        self._engine, self._batches, place = self._make(), [], 0
        for key, threads, count in zip(found["keys"], found["threads"], found["programs"], strict=True):
            ends = place + int(count)
            seconds = [float(s) for s in found["seconds"][place:ends]]
            self._learn(_Learned(str(key), list(rows[place:ends]), seconds, int(threads)))
            place = ends


def _engine_model(workers: int | None, config: XGBConfig | None) -> Any:
    found = default_model()
    if not isinstance(found, TreeModel):
        return found
    options = config.to_dict() if config is not None else {}
    threads = options.pop("nthread", None)
    options.pop("tree_method", None)
    return TreeModel(workers=workers if workers is not None else threads, options=options)


def _target_of(context: TuneContext) -> Target:
    if context.target is None:
        raise TVMError("a cost model needs a target: give TuneContext one")
    return context.target
