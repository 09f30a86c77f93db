"""meta_schedule: design spaces of TensorIR programs, and the search in them. A face of the engine in `tuning`."""

from __future__ import annotations

from tilewright.meta_schedule.builder import Builder
from tilewright.meta_schedule.cost_model import CostModel
from tilewright.meta_schedule.database import Database
from tilewright.meta_schedule.extracted_task import ExtractedTask
from tilewright.meta_schedule.feature_extractor import FeatureExtractor
from tilewright.meta_schedule.measure_callback import MeasureCallback
from tilewright.meta_schedule.mutator import Mutator
from tilewright.meta_schedule.postproc import Postproc
from tilewright.meta_schedule.profiler import Profiler
from tilewright.meta_schedule.runner import Runner
from tilewright.meta_schedule.schedule_rule import ScheduleRule
from tilewright.meta_schedule.search_strategy import MeasureCandidate, SearchStrategy
from tilewright.meta_schedule.space_generator import SpaceGenerator
from tilewright.meta_schedule.task_scheduler import TaskScheduler
from tilewright.meta_schedule.tir_integration import tune_tir
from tilewright.meta_schedule.tune import tune_tasks
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.meta_schedule.utils import derived_object
from tilewright.support import lazy

__all__ = [
    "Builder",
    "CostModel",
    "Database",
    "ExtractedTask",
    "FeatureExtractor",
    "MeasureCallback",
    "MeasureCandidate",
    "Mutator",
    "Postproc",
    "Profiler",
    "Runner",
    "ScheduleRule",
    "SearchStrategy",
    "SpaceGenerator",
    "TaskScheduler",
    "TuneContext",
    "derived_object",
    "tune_tasks",
    "tune_tir",
]

# What reaches into models.
lazy.faces(
    __name__,
    {
        "relay_integration": tuple(
            [
                f"tilewright.relay.backend.meta_schedule_tasks:{name}"
                for name in (
                    "compile_relay",
                    "extract_tasks",
                    "extracted_tasks_to_tune_contexts",
                    "is_meta_schedule_enabled",
                    "tune_relay",
                )
            ]
        )
    },
)
lazy.declare(
    __name__,
    {"is_meta_schedule_enabled": "tilewright.relay.backend.meta_schedule_tasks:is_meta_schedule_enabled"},
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
