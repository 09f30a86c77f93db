"""A worker process: one contestant with one model, which waits for commands, so that it takes no part of the machine while others run.

    python -m benchmarks worker PEER MODEL THREADS

Commands come as JSON, one a line, on standard input, and answers go, one a line, to standard output:
{"burst": n} runs once uncounted and then n times, and answers milliseconds; {"outputs": file} writes the outputs of a run as .npz;
{"memory": true} answers peaks of the resident set in MB. The first line that it writes says that it is ready, with the seconds that it took
to compile, or why it cannot run. `benchmarks.contests.contest` drives workers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.contests.resident import forget_peak, resident
from benchmarks.options import thread_count
from benchmarks.peers import PEERS, Job, Run, Unavailable


def prepare(peer: str, model: str, threads: int) -> tuple[Run, dict[str, Any]]:
    """The contestant's function, and what compiling took."""
    module = importlib.import_module(f"benchmarks.peers.{PEERS[peer].module}")
    job = Job(model, models.make(model), models.inputs(model), threads, PEERS[peer].precision)
    module.load(job)
    before = resident("VmRSS")
    start = time.perf_counter()
    run = module.prepare(job)
    seconds = time.perf_counter() - start
    run()
    facts = {"compile_s": seconds, "first_s": time.perf_counter() - start, "compile_mb": resident("VmHWM")}
    forget_peak()
    return run, {**facts, "before_mb": before}


def answer(command: dict[str, Any], run: Run) -> Any:
    if "burst" in command:
        run()
        taken = []
        for _ in range(command["burst"]):
            start = time.perf_counter()
            run()
            taken.append((time.perf_counter() - start) * 1e3)
        return taken
    if "outputs" in command:
        np.savez(command["outputs"], *run())
        return True
    if "memory" in command:
        return {"running_mb": resident("VmHWM")}
    raise ValueError(f"unknown command {command}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks worker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("model")
    parser.add_argument("threads")
    options = parser.parse_args(argv)
    # What libraries print goes to standard error; answers have a descriptor of their own.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)

        def reply(value: Any) -> None:
            replies.write(json.dumps(value) + "\n")
            replies.flush()

        try:
            run, facts = prepare(options.peer, options.model, thread_count(parser, options.threads))
        except Unavailable as reason:
            reply({"unavailable": str(reason)})
            return 1
        reply(facts)
        for line in sys.stdin:
            reply(answer(json.loads(line), run))
    return 0
