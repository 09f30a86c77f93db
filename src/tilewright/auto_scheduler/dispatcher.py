"""Which program a workload gets: contexts, the innermost of which decides."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.classic_log import Entry
from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.measure_record import entry_of
from tilewright.auto_scheduler.utils import decode_workload_key
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.target import Target

logger = logging.getLogger("auto_scheduler")

lazy.declare(
    __name__,
    {"ApplyHistoryBestOrSample": "tilewright.auto_scheduler.sampled_programs:ApplyHistoryBestOrSample"},
)
__getattr__, __dir__ = lazy.late(__name__)


class DispatchContext:
    """Answers for workloads. `with context:` makes it the current one; what it does not know, those around it are asked."""

    current: ClassVar[DispatchContext | None] = None

    def __init__(self) -> None:
        self._outer: DispatchContext | None = None

    def query(
        self, target: Target, workload_key: str, has_complex_op: bool, dag: ComputeDAG, func_name: str
    ) -> State | None:
        """The program of a workload; None if nothing is known of it."""
        found = self._query_inside(target, workload_key, dag)
        if found is None and self._outer is not None:
            return self._outer.query(target, workload_key, has_complex_op, dag, func_name)
        return found

    def update(self, target: Target, workload_key: str, state: State | StateObject) -> None:
        """Sets the program of a workload."""
        raise NotImplementedError

    def _query_inside(self, target: Target, workload_key: str, dag: ComputeDAG) -> State | None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._outer = DispatchContext.current
        DispatchContext.current = self
        return self

    def __exit__(self, *_: Any) -> None:
        DispatchContext.current = self._outer


class ApplyHistoryBest(DispatchContext):
    """The fastest records of logs.

    records: a log, pairs of inputs and results, or a list of these. n_lines: of each log, at most. include_compatible: whether records of
    a smaller workload of the same kind are taken.
    """

    def __init__(self, records: Any, n_lines: int | None = None, include_compatible: bool = False) -> None:
        super().__init__()
        self.include_compatible = include_compatible
        self._entries: list[Entry] = []
        self._set: dict[tuple[str, str], State | StateObject] = {}
        self._checked: set[str] = set()
        self._applies: set[int] = set()
        self.load(records, n_lines)

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Adds records. Those whose times no machine can reach are not used, which a warning tells."""
        self._checked.clear()
        if isinstance(records, (str, os.PathLike)):
            self._entries += classic_log.entries(records, n_lines)
            return
        many: Iterable[Any] = records
        for record in many:
            match record:
                case (MeasureInput() as inp, MeasureResult() as res):
                    self._entries.append(entry_of(inp, res))
                case _:
                    self.load(record, n_lines)

    @staticmethod
    def get_workload_entry(
        best_records: dict[str, dict[Any, Any]], target_key: str, workload_key: str
    ) -> tuple[dict[Any, Any], Any, Any]:
        """(what a dict has for a target and a kind of workload, which is made if it is missing; this kind; the workload's arguments)."""
        kind, args = decode_workload_key(workload_key)
        kind = workload_key if kind is None else kind
        return best_records.setdefault(target_key, {}).setdefault(kind, {}), kind, args or ()

    def update(self, target: Target, workload_key: str, state: State | StateObject) -> None:
        self._set[classic_log.kind_of(target), workload_key] = state

    def _query_inside(self, target: Target, workload_key: str, dag: ComputeDAG) -> State | None:
        given = self._set.get((classic_log.kind_of(target), workload_key))
        if given is not None:
            return given if isinstance(given, State) else State(given, dag)
        if workload_key not in self._checked:
            # Once, so that a record that is refused is told once.
            self._checked.add(workload_key)
            mine, flops = [e for e in self._entries if e.workload_key == workload_key and not e.error_no], dag.flop_ct
            bad = {id(entry) for entry in mine if not classic_log.is_possible(entry, flops)}
            self._entries = [entry for entry in self._entries if id(entry) not in bad]
        while True:
            found = classic_log.best(self._entries, workload_key, target, self.include_compatible)
            if found is None:
                return None
            try:
                return State(self._applied(dag, found), dag)
            except TVMError as error:
                logger.warning("a record of %s for %s is not used: %s", workload_key, found.target, error)
                self._entries = [entry for entry in self._entries if entry is not found]

    def _applied(self, dag: ComputeDAG, entry: Entry) -> StateObject:
        """The state of an entry whose steps make a schedule. Raises TVMError where one is refused."""
        state = dag.state_of(entry.steps)
        if id(entry) not in self._applies:
            dag.replay(entry.steps)
            self._applies.add(id(entry))
        return state


class FallbackContext(DispatchContext):
    """Knows what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, str], State | StateObject] = {}

    def update(self, target: Target, workload_key: str, state: State | StateObject) -> None:
        self.memory[str(target), workload_key] = state

    def _query_inside(self, target: Target, workload_key: str, dag: ComputeDAG) -> State | None:
        found = self.memory.get((str(target), workload_key))
        return State(found, dag) if isinstance(found, StateObject) else found


DispatchContext.current = FallbackContext()
