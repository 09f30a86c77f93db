"""The cost model that is a network over the features of programs. PyTorch is imported when a model is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.meta_schedule.cost_model.cost_model import CostModel, Scores
from tilewright.meta_schedule.cost_model.groups import FeatureGroup
from tilewright.meta_schedule.cost_model.mlp_state import (
    SegmentSumMLPConfig,
    State,
    TrainerConfig,
    extract_features,
    logger,
)
from tilewright.meta_schedule.utils import shash2hex
from tilewright.support import lazy

if TYPE_CHECKING:
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext

__all__ = ["FeatureGroup", "MLPModel", "SegmentSumMLPConfig", "State", "TrainerConfig", "extract_features", "logger"]


class MLPModel(CostModel, kind="mlp"):
    """A network over the features of programs (SegmentSumMLP), which learns to rank schedules.

    trainer: trains it; None: one of default parameters. Raises TVMError where PyTorch is missing. Until it has learned, it ranks nothing.
    """

    def __init__(self, *, trainer: Any = None) -> None:
        from tilewright.meta_schedule.cost_model.mlp_trainer import SegmentSumMLPTrainer

        self.trainer = trainer if trainer is not None else SegmentSumMLPTrainer()

    def load(self, path: str) -> None:
        self.trainer.state.load(path)

    def save(self, path: str) -> None:
        self.trainer.state.save(path)

    def update(self, context: TuneContext, candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        if not candidates or context.mod is None:
            return
        features, costs = extract_features(context, candidates, results, self.trainer.state.extractor)
        assert costs is not None
        self.trainer.update(features, costs, shash2hex(context.mod))

    def predict(self, context: TuneContext, candidates: list[MeasureCandidate]) -> Scores:
        """A score of each schedule: higher is faster; all are 0 before the first measurements."""
        if not candidates or self.trainer.state.untrained:
            return np.zeros(len(candidates))
        features, _ = extract_features(context, candidates, None, self.trainer.state.extractor)
        found: Scores = np.asarray(self.trainer.predict_incremental(features), np.float64)
        return found


# The classic module has the network and what trains it.
lazy.declare(
    __name__,
    {
        "SegmentSumMLPTrainer": "tilewright.meta_schedule.cost_model.mlp_trainer:SegmentSumMLPTrainer",
        **{
            name: f"tilewright.meta_schedule.cost_model.mlp_network:{name}"
            for name in ("SegmentDataLoader", "SegmentSumMLP", "lambda_rank_loss", "topk_score")
        },
    },
)
__getattr__, __dir__ = lazy.late(__name__)
