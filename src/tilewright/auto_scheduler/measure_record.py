"""Records of measurements under their classic names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.classic_log import Entry
from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.measure import MeasureCallback, MeasureInput, MeasureResult
from tilewright.auto_scheduler.search_task import SearchTask
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning import log


def entry_of(inp: MeasureInput, res: MeasureResult) -> Entry:
    """A measurement as logs have it."""
    task = inp.task
    return Entry(
        task.workload_key,
        str(task.target),
        tuple(task.hardware_params.to_json()),
        tuple(inp.state.transform_steps),
        tuple([float(c) for c in res.costs]),
        int(res.error_no),
        res.all_cost,
        res.timestamp,
        "" if task.target_host is None else str(task.target_host),
        int(task.layout_rewrite_option),
        tuple(task.task_input_names),
    )


def measurement_of(entry: Entry) -> tuple[MeasureInput, MeasureResult]:
    """What an entry says. Stages of its state are known after `recover_measure_input`: before, the workload need not be registered.

    Raises TVMError for a target that is not known here.
    """
    task = SearchTask(
        workload_key=entry.workload_key,
        target=entry.target,
        target_host=entry.target_host or None,
        hardware_params=HardwareParams.from_json(entry.hardware),
        layout_rewrite_option=entry.layout_option,
        task_inputs=list(entry.input_names),
    )
    state = StateObject([], list(entry.steps))
    result = MeasureResult(list(entry.costs), entry.error_no, "", entry.all_cost, entry.timestamp)
    return MeasureInput(task, state), result


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """The input with its computation; with all stages of its state where `rebuild_state`."""
    dag = inp.task.compute_dag
    return MeasureInput(inp.task, dag.state_of(inp.state.transform_steps) if rebuild_state else inp.state)


class RecordToFile(MeasureCallback):
    """Adds all measurements to a log, which is created if it is missing."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        save_records(self.filename, inputs, results)


class RecordReader:
    """The records of a log."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Inputs and results of at most max_lines records, after skip_lines."""
        inputs, results = [], []
        for entry in classic_log.entries(self.filename, max_lines, skip_lines):
            try:
                inp, res = measurement_of(entry)
            except TVMError:
                continue
            inputs.append(inp)
            results.append(res)
        return inputs, results

    def check_workload_key(self, inputs: Sequence[MeasureInput]) -> None:
        """Raises TVMError for a workload that is not registered."""
        for inp in inputs:
            _ = inp.task.compute_dag

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        inputs, results = self.read_lines()
        yield from zip(inputs, results, strict=True)


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """A measurement as a line of a log."""
    return json.dumps(entry_of(inp, res).to_json())


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """The measurement of a line. Raises TVMError for one that is none."""
    try:
        data = json.loads(record)
    except ValueError as error:
        raise TVMError(f"a record is a line of JSON, but this is none: {record[:80]!r}") from error
    return measurement_of(Entry.from_json(data))


def load_records(filename: str | os.PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The measurements of a log."""
    return iter(RecordReader(filename))


def save_records(
    filename: str | os.PathLike[str], inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Adds measurements to a log. Raises TVMError where it cannot be written."""
    log.append(filename, [entry_of(inp, res).to_json() for inp, res in zip(inputs, results, strict=True)])


def load_best_record(
    filename: str | os.PathLike[str],
    workload_key: str | None = None,
    target: Target | str | None = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """The fastest measurement of a log, of a workload and a target if they are given; (None, None) if there is none."""
    entries = classic_log.entries(filename)
    if workload_key is None:
        flops: dict[str, float] = {}
        entries = filter(lambda entry: entry.error_no or _is_possible(entry, flops), entries)
    known = 0.0 if workload_key is None else flops_of_key(workload_key)
    found = classic_log.best(entries, workload_key, target, include_compatible, known)
    return (None, None) if found is None else measurement_of(found)


def distill_record_file(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Writes the fastest record of each workload and kind of target to another log, which is replaced."""
    if os.path.exists(out_file) and os.path.samefile(in_file, out_file):
        raise TVMError(f"the records of {os.fspath(in_file)} would be written over themselves: give another out_file")
    fastest = _fastest(classic_log.entries(in_file))
    if os.path.exists(out_file):
        os.remove(out_file)
    log.append(out_file, [entry.to_json() for entry in fastest])


def flops_of_key(workload_key: str) -> float:
    """Operations of a workload; 0 where it is not registered."""
    try:
        return ComputeDAG(workload_key).flop_ct
    except TVMError:
        return 0.0


def _is_possible(entry: Entry, flops: dict[str, float]) -> bool:
    """Whether the time of a measurement can be true. flops: of the workloads that are known already."""
    key = entry.workload_key
    if key not in flops:
        flops[key] = flops_of_key(key)
    return classic_log.is_possible(entry, flops[key])


def _fastest(entries: Iterable[Entry]) -> list[Entry]:
    found: dict[tuple[str, str], Entry] = {}
    flops: dict[str, float] = {}
    for entry in entries:
        key = entry.workload_key, classic_log.kind_of(entry.target)
        faster = not entry.error_no and (key not in found or entry.seconds < found[key].seconds)
        if faster and _is_possible(entry, flops):
            found[key] = entry
    return list(found.values())
