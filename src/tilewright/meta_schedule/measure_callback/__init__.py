"""What is done with each batch of measurements."""

from __future__ import annotations

from tilewright.meta_schedule.measure_callback.measure_callback import (
    AddToDatabase,
    MeasureCallback,
    PyMeasureCallback,
    RemoveBuildArtifact,
    UpdateCostModel,
    create,
)
from tilewright.support import lazy

__all__ = [
    "AddToDatabase",
    "MeasureCallback",
    "PyMeasureCallback",
    "RemoveBuildArtifact",
    "UpdateCostModel",
    "create",
]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "add_to_database": ("tilewright.meta_schedule.measure_callback.measure_callback:AddToDatabase",),
        "remove_build_artifact": ("tilewright.meta_schedule.measure_callback.measure_callback:RemoveBuildArtifact",),
        "update_cost_model": ("tilewright.meta_schedule.measure_callback.measure_callback:UpdateCostModel",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
