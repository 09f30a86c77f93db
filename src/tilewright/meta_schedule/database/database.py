"""Databases of schedules: what they can be asked, and which one is in use."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from tilewright.ir import IRModule
from tilewright.meta_schedule.database.record import TuningRecord, Workload
from tilewright.meta_schedule.module_equality import ModuleEquality
from tilewright.node import structural_equal
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

logger = logging.getLogger("tilewright.meta_schedule")


class Database(ABC):
    """Workloads and records of their schedules. `with database:` puts it in use.

    module_equality: when modules are the same workload: see ModuleEquality.
    """

    kinds: ClassVar[dict[str, Callable[..., Database]]] = {}
    """The databases by the names that `create` takes."""
    _stack: ClassVar[threading.local] = threading.local()
    equality: ModuleEquality = ModuleEquality()

    def __init__(self, module_equality: str = "structural") -> None:
        self.equality = ModuleEquality(module_equality)

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            Database.kinds[kind] = cls

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Whether a module is a workload here."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """The workload of a module, which is added if it is missing."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Adds a record, whose workload is one of this database."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a workload, at most so many, without those that failed."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records."""

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    def __bool__(self) -> bool:
        """A database without records is still one."""
        return True

    def query_tuning_record(self, mod: IRModule, target: Target | str, workload_name: str) -> TuningRecord | None:
        """The fastest record of a module on a kind of target; None without any. workload_name: for the messages of databases of users."""
        if not self.has_workload(mod):
            return None
        kind = Target(target).kind.name
        records = self.get_top_k(self.commit_workload(mod), len(self))
        return next((r for r in records if r.target is None or r.target.kind.name == kind), None)

    def query_schedule(self, mod: IRModule, target: Target | str, workload_name: str) -> Schedule | None:
        """The module scheduled by its fastest record; None without any, or if that does not fit it, or cannot be read."""
        record = self.query_tuning_record(mod, target, workload_name)
        if record is None:
            return None
        sch = Schedule(mod, error_render_level="fast")
        try:
            if self.equality.mode == "anchor-block" and not structural_equal(
                record.workload.mod, mod, map_free_vars=True
            ):
                from tilewright.meta_schedule.trace_apply import schedule_using_anchor_trace

                schedule_using_anchor_trace(sch, record.trace, target)
            else:
                record.trace.apply_to_schedule(sch)
        except ScheduleError:
            return None
        except TVMError as error:
            logger.warning("a record of %s is not used: %s", workload_name, error)
            return None
        return sch

    def query_ir_module(self, mod: IRModule, target: Target | str, workload_name: str) -> IRModule | None:
        """The module as `query_schedule` schedules it."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(self, mod: IRModule, target: Target | str, *, workload_name: str = "main", kind: str = "schedule") -> Any:
        """By kind: the "schedule", the "record" or the "ir_module". Raises ValueError for others."""
        asked = {
            "schedule": self.query_schedule,
            "record": self.query_tuning_record,
            "ir_module": self.query_ir_module,
        }
        if kind not in asked:
            raise ValueError(f"a database is asked for {', '.join(asked)}, but {kind!r} was given")
        return asked[kind](mod, target, workload_name)

    def dump_pruned(self, destination: Database) -> None:
        """Adds the fastest record of each workload and target to another database."""
        best: dict[tuple[int, str], TuningRecord] = {}
        for record in self.get_all_tuning_records():
            key = (self.equality.hash(record.workload.mod), str(record.target))
            if record.is_valid and (key not in best or record.seconds < best[key].seconds):
                best[key] = record
        for record in best.values():
            workload = destination.commit_workload(record.workload.mod)
            destination.commit_tuning_record(record.of(workload))

    def __enter__(self) -> Self:
        stack = getattr(Database._stack, "databases", None)
        if stack is None:
            stack = Database._stack.databases = []
        stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        Database._stack.databases.pop()

    @staticmethod
    def current() -> Database | None:
        """The database in use; None without one."""
        stack: Sequence[Database] = getattr(Database._stack, "databases", ())
        return stack[-1] if stack else None

    @staticmethod
    def create(kind: Any = "json", *args: Any, **kwargs: Any) -> Database:
        """A database by its name: "json", "memory", "union", "ordered_union"; or of a function that schedules. Raises ValueError for
        others."""
        if callable(kind):
            return Database.kinds["schedule_fn"](kind, *args, **kwargs)
        if kind not in Database.kinds:
            raise ValueError(f"a database is one of {', '.join(sorted(Database.kinds))}, but {kind!r} was given")
        return Database.kinds[kind](*args, **kwargs)


class PyDatabase(Database):
    """The base of databases of users."""


create = Database.create
