"""Predictions of how fast schedules are."""

from __future__ import annotations

from tilewright.meta_schedule.cost_model.cost_model import CostModel, PyCostModel, create
from tilewright.meta_schedule.cost_model.random_model import RandomModel

__all__ = ["CostModel", "PyCostModel", "RandomModel", "create"]
