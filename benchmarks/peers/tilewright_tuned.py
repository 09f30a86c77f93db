"""This compiler with records of tuning, from the folder that the environment variable TILEWRIGHT_BENCH_RECORDS names."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.peers import Job, Run, Unavailable, tilewright
from benchmarks.peers.tilewright import load as load

RECORDS = "TILEWRIGHT_BENCH_RECORDS"


def records_of(folder: str | Path, model: str, threads: int) -> Path:
    """The file of a model's records: kernels have other best schedules on other numbers of threads."""
    return Path(folder) / f"{model}-{threads}t.records"


def prepare(job: Job) -> Run:
    folder = os.environ.get(RECORDS)
    path = records_of(folder, job.model, job.threads) if folder else None
    if path is None or not path.exists():
        raise Unavailable(f"there are no records of {job.model}: python -m benchmarks tuned_models makes them")
    return tilewright.prepare(job, records=path)
