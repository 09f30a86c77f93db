"""Predictions of how fast schedules are."""

from __future__ import annotations

from tilewright.meta_schedule.cost_model.cost_model import CostModel, PyCostModel, create
from tilewright.meta_schedule.cost_model.mlp_model import MLPModel
from tilewright.meta_schedule.cost_model.random_model import RandomModel
from tilewright.meta_schedule.cost_model.xgb_model import XGBModel
from tilewright.support import lazy

__all__ = ["CostModel", "MLPModel", "PyCostModel", "RandomModel", "XGBModel", "create"]

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
