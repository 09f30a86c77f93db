"""This compiler with the target c, compiled by zig cc."""

from __future__ import annotations

import os
import sys

from benchmarks.peers import Job, tilewright_c
from benchmarks.peers.tilewright_c import prepare as prepare


def load(job: Job) -> None:
    os.environ["CC"] = f"{sys.executable} -m ziglang cc"
    tilewright_c.load(job)
