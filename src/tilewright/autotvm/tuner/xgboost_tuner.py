"""Search guided by gradient boosted trees."""

from __future__ import annotations

from typing import Any

from tilewright.autotvm.tuner.model_based_tuner import ModelBasedTuner, ModelOptimizer
from tilewright.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
from tilewright.autotvm.tuner.xgboost_cost_model import XGBoostCostModel


class XGBTuner(ModelBasedTuner):
    """Learns from measurements with gradient boosted trees, and searches by simulated annealing.

    plan_size: configurations that are planned at a time. feature_type, loss_type, num_threads: see XGBoostCostModel. optimizer: "sa", or an
    object. diversity_filter_ratio: see ModelBasedTuner. Needs the package xgboost; raises TVMError where it is missing.
    """

    def __init__(
        self,
        task: Any,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: str | ModelOptimizer = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
    ) -> None:
        model = XGBoostCostModel(task, feature_type, loss_type, num_threads, log_interval // 2)
        chosen = SimulatedAnnealingOptimizer(task, log_interval=log_interval) if optimizer == "sa" else optimizer
        if not isinstance(chosen, ModelOptimizer):
            raise ValueError(f"the optimizer is 'sa' or a ModelOptimizer, but was given {optimizer!r}")
        super().__init__(task, model, chosen, plan_size, diversity_filter_ratio)
