"""Databases that hold records: in memory, and in files."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.database.database import Database
from tilewright.meta_schedule.database.record import TuningRecord, Workload
from tilewright.support.errors import TVMError
from tilewright.tuning import log
from tilewright.tuning.record import Refused

logger = logging.getLogger("tilewright.meta_schedule")


class MemoryDatabase(Database, kind="memory"):
    """Records in memory."""

    def __init__(self, module_equality: str = "structural") -> None:
        super().__init__(module_equality)
        self.records: list[TuningRecord] = []
        self.workloads: list[Workload] = []
        self._places: dict[int, list[int]] = {}

    def _place(self, mod: IRModule) -> int | None:
        """The number of the workload of a module."""
        known = self._places.get(self.equality.hash(mod), ())
        return next((i for i in known if self.equality.equal(self.workloads[i].mod, mod)), None)

    def _add(self, workload: Workload) -> None:
        self._places.setdefault(self.equality.hash(workload.mod), []).append(len(self.workloads))
        self.workloads.append(workload)

    def has_workload(self, mod: IRModule) -> bool:
        return self._place(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        place = self._place(mod)
        if place is not None:
            return self.workloads[place]
        workload = Workload(mod)
        self._written_workload(workload)
        self._add(workload)
        return workload

    def commit_tuning_record(self, record: TuningRecord) -> None:
        place = self._place(record.workload.mod)
        if place is None:
            raise TVMError("the workload of a record is not in the database: commit_workload adds it")
        self._written_record(place, record)
        self.records.append(record)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        found = [r for r in self.records if r.is_valid and self._is(r.workload, workload)]
        return sorted(found, key=lambda r: r.seconds)[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self.records)

    def _is(self, a: Workload, b: Workload) -> bool:
        return a is b or self.equality.equal(a.mod, b.mod)

    def _written_workload(self, workload: Workload) -> None:
        """Keeps a new workload beyond the process."""

    def _written_record(self, place: int, record: TuningRecord) -> None:
        """Keeps a new record of the workload with this number beyond the process."""


class JSONDatabase(MemoryDatabase, kind="json"):
    """Records in two files of JSON lines: the workloads, and the records with the numbers of their workloads. What is committed is on
    the disk when the call returns. Several processes may append records to one file, but not workloads.

    work_dir: the folder of the files "database_workload.json" and "database_tuning_record.json", where paths are not given.
    allow_missing: False: raises TVMError where a file is missing. refused: lines that are not used, and why.
    """

    def __init__(
        self,
        path_workload: str | None = None,
        path_tuning_record: str | None = None,
        *,
        work_dir: str | None = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
    ) -> None:
        super().__init__(module_equality)
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise ValueError("a JSONDatabase needs work_dir, or the paths of both files")
        folder = work_dir or ""
        self.path_workload = path_workload or os.path.join(folder, "database_workload.json")
        self.path_tuning_record = path_tuning_record or os.path.join(folder, "database_tuning_record.json")
        self.refused: list[Refused] = []
        for path in (self.path_workload, self.path_tuning_record):
            if not os.path.exists(path):
                if not allow_missing:
                    raise TVMError(f"the file {path} of a database is missing")
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self._load()

    def _load(self) -> None:
        # A workload keeps the number of its line among those that are read, whether or not others can be read.
        numbers: dict[int, Workload] = {}
        self._next = 0
        for line in _lines(self.path_workload):
            count, self._next = self._next, self._next + 1
            workload = self._read(line, Workload.from_json)
            if workload is not None:
                numbers[count] = workload
                self._add(workload)
        self._numbers = {id(workload): number for number, workload in numbers.items()}
        for line in _lines(self.path_tuning_record):
            record = self._read(line, lambda data: self._record(data, numbers))
            if record is not None:
                self.records.append(record)
        if self.refused:
            first = self.refused[0]
            logger.warning(
                "%d lines of the database %s are not used; line %d: %s",
                len(self.refused),
                os.path.dirname(self.path_tuning_record) or ".",
                first.number,
                first.why,
            )

    @staticmethod
    def _record(data: Any, numbers: dict[int, Workload]) -> TuningRecord:
        match data:
            case [int(number), [*parts]]:
                if number not in numbers:
                    raise TVMError(f"its workload {number} is not in the file of workloads")
                return TuningRecord.from_json(parts, numbers[number])
        raise TVMError("it is not [number of the workload, record]")

    def _read(self, line: log.Line, make: Any) -> Any:
        if line.record is None:
            self.refused.append(Refused(line.number, line.why))
            return None
        try:
            return make(line.record)
        except TVMError as error:
            self.refused.append(Refused(line.number, str(error)))
            return None

    def _written_workload(self, workload: Workload) -> None:
        log.append(self.path_workload, [workload.as_json()])
        self._numbers[id(workload)] = self._next
        self._next += 1

    def _written_record(self, place: int, record: TuningRecord) -> None:
        log.append(self.path_tuning_record, [[self._numbers[id(self.workloads[place])], record.as_json()]])


def _lines(path: str) -> Iterable[log.Line]:
    """The lines of a file; none if it is missing."""
    return log.read(path, list) if os.path.exists(path) else ()
