"""Databases that ask others: several databases, or a function that schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tilewright.ir import IRModule
from tilewright.meta_schedule.database.database import Database
from tilewright.meta_schedule.database.record import TuningRecord, Workload
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule


class _OnlyAsked(Database):
    """A database to which nothing can be added."""

    def _refuse(self, what: str) -> NoReturn:
        raise TVMError(f"{type(self).__name__} can only be queried: it has no {what}")

    def has_workload(self, mod: IRModule) -> bool:
        self._refuse("workloads")

    def commit_workload(self, mod: IRModule) -> Workload:
        self._refuse("workloads")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._refuse("records of its own")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        self._refuse("records of its own")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        self._refuse("records of its own")

    def __len__(self) -> int:
        self._refuse("records of its own")


class UnionDatabase(_OnlyAsked, kind="union"):
    """The fastest record of several databases."""

    def __init__(self, *databases: Database) -> None:
        super().__init__()
        self.databases = databases

    def query_tuning_record(self, mod: IRModule, target: Target | str, workload_name: str) -> TuningRecord | None:
        found = [db.query_tuning_record(mod, target, workload_name) for db in self.databases]
        return min([r for r in found if r is not None], key=lambda r: r.seconds, default=None)


class OrderedUnionDatabase(_OnlyAsked, kind="ordered_union"):
    """The record of the first of several databases that has one."""

    def __init__(self, *databases: Database) -> None:
        super().__init__()
        self.databases = databases

    def query_tuning_record(self, mod: IRModule, target: Target | str, workload_name: str) -> TuningRecord | None:
        for db in self.databases:
            record = db.query_tuning_record(mod, target, workload_name)
            if record is not None:
                return record
        return None


class ScheduleFnDatabase(_OnlyAsked, kind="schedule_fn"):
    """Schedules by a function, which tells whether it scheduled the program."""

    def __init__(self, schedule_fn: Callable[[Schedule], bool], module_equality: str = "structural") -> None:
        super().__init__(module_equality)
        self.schedule_fn = schedule_fn

    def query_tuning_record(self, mod: IRModule, target: Target | str, workload_name: str) -> TuningRecord | None:
        sch = Schedule(mod, error_render_level="fast")
        if not self.schedule_fn(sch):
            return None
        assert sch.trace is not None
        return TuningRecord(sch.trace, Workload(mod), None, Target(target))
