"""Databases of schedules."""

from __future__ import annotations

from tilewright.meta_schedule.database.composed import OrderedUnionDatabase, ScheduleFnDatabase, UnionDatabase
from tilewright.meta_schedule.database.database import Database, PyDatabase, create
from tilewright.meta_schedule.database.record import TuningRecord, Workload
from tilewright.meta_schedule.database.stored import JSONDatabase, MemoryDatabase

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
