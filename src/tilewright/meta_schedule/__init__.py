"""meta_schedule: design spaces of TensorIR programs, and the search in them. A face of the engine in `tuning`."""

from __future__ import annotations

from tilewright.meta_schedule.database import Database
from tilewright.meta_schedule.mutator import Mutator
from tilewright.meta_schedule.postproc import Postproc
from tilewright.meta_schedule.schedule_rule import ScheduleRule
from tilewright.meta_schedule.space_generator import SpaceGenerator
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.meta_schedule.utils import derived_object
from tilewright.support import lazy

__all__ = ["Database", "Mutator", "Postproc", "ScheduleRule", "SpaceGenerator", "TuneContext", "derived_object"]

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
