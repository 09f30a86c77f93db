"""Features of programs: for each statement that stores, a row of numbers. The columns are those of the engine (`tuning/features`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.measure_programs import program_of
from tilewright.auto_scheduler.measure_record import RecordReader
from tilewright.auto_scheduler.search_task import SearchTask
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tuning.features.columns import BUFFERS, Rows, features_of, names

DEFAULT_MAX_N_BUFS = BUFFERS
SIZE_OF_INT32 = SIZE_OF_FLOAT32 = 4
DEFAULT_FEATURE_VEC_LEN = len(names())

Numbers = np.ndarray[Any, Any]


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """The names of the columns. max_n_bufs: buffers whose accesses are described, those with the most bytes."""
    return list(names(max_n_bufs or BUFFERS))


def get_per_store_features_from_states(
    states: Sequence[State | StateObject], task: SearchTask, max_n_bufs: int | None = None
) -> list[Rows]:
    """The rows of each program; none for one whose steps are refused. Counts and sizes are scaled by log2(1 + x)."""
    return [_rows(MeasureInput(task, state), max_n_bufs or BUFFERS) for state in states]


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> tuple[list[Rows], Numbers, Numbers]:
    """The rows of measured programs, their throughput in that of the fastest of the same workload, and the number of their workload.

    The first programs, as many as asked for, have no rows.
    """
    if len(inputs) != len(results):
        raise TVMError(f"there are {len(inputs)} inputs, but {len(results)} results")
    numbers: dict[str, int] = {}
    tasks = np.array([numbers.setdefault(i.task.workload_key, len(numbers)) for i in inputs], dtype=np.int32)
    seconds = np.array([r.seconds for r in results], dtype=np.float64)
    throughputs = np.zeros(len(inputs), dtype=np.float32)
    for number in numbers.values():
        mine = tasks == number
        best = seconds[mine].min()
        throughputs[mine] = best / seconds[mine] if best < np.inf else 0.0
    width = len(names(max_n_bufs or BUFFERS))
    skipped = skip_first_n_feature_extraction
    rows = [
        np.zeros((0, width), np.float32) if i < skipped else _rows(inp, max_n_bufs or BUFFERS)
        for i, inp in enumerate(inputs)
    ]
    return rows, throughputs, tasks


def get_per_store_features_from_file(
    filename: str | os.PathLike[str], max_lines: int, max_n_bufs: int | None = None
) -> tuple[list[Rows], Numbers, Numbers]:
    """The same of at most max_lines records of a log."""
    inputs, results = RecordReader(filename).read_lines(max_lines)
    return get_per_store_features_from_measure_pairs(inputs, results, 0, max_n_bufs)


def features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> Rows:
    """The rows of a function, lowered or not. cache_line_bytes: of the machine. log_scale: counts and sizes x become log2(1 + x)."""
    buffers, target = max_n_bufs or BUFFERS, Target.current(True) or Target("llvm")
    rows = features_of(func, target, target.cpu.threads, buffers, line=cache_line_bytes, logarithms=log_scale)
    return rows[:, : len(names(buffers))]


def named_features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> dict[str, Numbers]:
    """The same by the names of the columns: an array of a number for each statement."""
    rows = features_from_primfunc(func, cache_line_bytes, max_n_bufs, log_scale)
    return {name: rows[:, i] for i, name in enumerate(get_per_store_feature_names(max_n_bufs))}


def _rows(inp: MeasureInput, buffers: int) -> Rows:
    width = len(names(buffers))
    try:
        program = program_of(inp)
    except TVMError:
        return np.zeros((0, width), np.float32)
    task = inp.task
    hardware = task.hardware_params
    rows = features_of(program, task.target, hardware.num_cores, buffers, line=hardware.cache_line_bytes)
    return rows[:, :width]
