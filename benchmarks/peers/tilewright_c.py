"""This compiler with the target c: C source, compiled by the compiler of the machine (CC)."""

from __future__ import annotations

from benchmarks.peers import Job, Run, tilewright
from benchmarks.peers.tilewright import load as load


def prepare(job: Job) -> Run:
    return tilewright.prepare(job, "c")
