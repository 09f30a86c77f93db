"""Databases of schedules."""

from __future__ import annotations

from tilewright.meta_schedule.database.composed import OrderedUnionDatabase, ScheduleFnDatabase, UnionDatabase
from tilewright.meta_schedule.database.database import Database, PyDatabase, create
from tilewright.meta_schedule.database.record import TuningRecord, Workload
from tilewright.meta_schedule.database.stored import JSONDatabase, MemoryDatabase
from tilewright.support import lazy

__all__ = [
    "Database",
    "JSONDatabase",
    "MemoryDatabase",
    "OrderedUnionDatabase",
    "PyDatabase",
    "ScheduleFnDatabase",
    "TuningRecord",
    "UnionDatabase",
    "Workload",
    "create",
]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "json_database": ("tilewright.meta_schedule.database.stored:JSONDatabase",),
        "memory_database": ("tilewright.meta_schedule.database.stored:MemoryDatabase",),
        "union_database": ("tilewright.meta_schedule.database.composed:UnionDatabase",),
        "ordered_union_database": ("tilewright.meta_schedule.database.composed:OrderedUnionDatabase",),
        "schedule_fn_database": ("tilewright.meta_schedule.database.composed:ScheduleFnDatabase",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
