"""Whole models, tuned: their latency beside that of untuned code, in turn in one run.

    python -m benchmarks tuned_models --models all --threads 1 --time 600 --records build/records --resume build/tuned.json

Each model is tuned for --time seconds; a run that is cut off goes on where it was. Then the untuned and the tuned one run in turn, each in
a process of its own (contests/contest.py). A ratio is the median over the rounds of the tuned time by the untuned one in the same round.
The exit status is 1 if the tuned model computes something else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.contests.contest import ROOT, contest
from benchmarks.contests.standing import paired_ratio
from benchmarks.options import new_file, takes_json, thread_count, write_json
from benchmarks.peers.tilewright_tuned import RECORDS, records_of
from benchmarks.whole_models.latency import chosen_models, save

CONTESTANTS = ["tilewright", "tilewright_tuned"]


def tune(name: str, threads: int, seconds: float, records: Path) -> None:
    """Tunes a model in this process, whose environment must tell the number of threads."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.relay.backend.model_program import ModelProgram, decide_program
    from tilewright.tuning.allocation import model_seconds
    from tilewright.tuning.building import LocalBuilder
    from tilewright.tuning.cost_model import default_model
    from tilewright.tuning.running.local import LocalRunner
    from tilewright.tuning.session import Event, Limits, Session

    mod, params = relay.frontend.from_onnx(models.make(name), shape=models.shapes(name))
    mod = relay.transform.FakeQuantizationToInteger()(mod)
    program, builder, runner = ModelProgram(mod, "llvm", params), LocalBuilder(), LocalRunner(threads=threads)
    ends = time.monotonic() + seconds
    with tvm.transform.PassContext(opt_level=3):
        decided = decide_program(program, builder, runner, records, Limits(seconds=seconds))
        tasks = program.tasks(records)
    if decided is not None:
        print(f"{name}: {decided.tried} decisions tried, kept {decided.given}", file=sys.stderr, flush=True)
    session = Session(tasks, builder, runner, default_model(), records)
    shown = time.monotonic()

    def report(event: Event) -> None:
        nonlocal shown
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            untuned, now = model_seconds(session.progress)
            print(
                f"{name}: {event.trials} candidates of {len(tasks)} kernels, {now / untuned:.3f} of untuned,"
                f" {event.elapsed:.0f} of {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    session.run(Limits(seconds=max(ends - time.monotonic(), 0.0)), report)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tuned_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = f"comma-separated, or 'all': {', '.join(models.BENCHMARKED)}"
    parser.add_argument("--models", default="all", help=known)
    parser.add_argument("--threads", default="1", help="number of threads")
    parser.add_argument("--time", type=float, default=600, help="seconds of tuning of each model")
    parser.add_argument("--records", type=Path, default=Path("build/records"), help="folder of records")
    parser.add_argument("--rounds", type=int, default=21, help="bursts of each contestant")
    parser.add_argument("--limit", type=float, help="seconds after which no other model is begun")
    parser.add_argument(
        "--resume", type=new_file, help="JSON file to go on from, and to keep results in after each model"
    )
    takes_json(parser)
    parser.add_argument("--only-tune", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    threads = thread_count(parser, options.threads)
    names = chosen_models(parser, options.models, [1])
    options.records.mkdir(parents=True, exist_ok=True)
    os.environ |= {RECORDS: str(options.records.resolve()), "TVM_NUM_THREADS": str(threads)}
    if options.only_tune:
        tune(options.only_tune, threads, options.time, records_of(options.records, options.only_tune, threads))
        return 0
    results: dict[str, Any] = {}
    if options.resume is not None and options.resume.exists():
        results = json.loads(options.resume.read_text())
    begun = time.monotonic()
    for name in names:
        key = f"{name}/{threads}"
        if key in results:
            continue
        if options.limit is not None and time.monotonic() - begun > options.limit:
            print(f"stopped; {len(names) - len(results)} still to tune", file=sys.stderr)
            break
        command = [sys.executable, "-m", "benchmarks", "tuned_models", "--only-tune", name, "--threads", str(threads)]
        command += ["--time", str(options.time), "--records", str(options.records.resolve())]
        subprocess.run(command, cwd=ROOT, check=True)
        found = contest(name, threads, CONTESTANTS, 60.0, options.rounds)
        results[key] = summary(found)
        print(f"{name}: {results[key]}", file=sys.stderr, flush=True)
        if options.resume is not None:
            save(options.resume, results)
    show(results)
    write_json(options, results)
    return int(any("wrong" in r or "error" in r for r in results.values()))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The ratio of the tuned model's time to the untuned one's, and its spread over the rounds."""
    peers = found["peers"]
    for peer in CONTESTANTS:
        if "error" in peers[peer]:
            return {"error": f"{peer}: {peers[peer]['error']}"}
    untuned, tuned = (peers[p]["rounds"] for p in CONTESTANTS)
    ratios = sorted(paired_ratio([a], [b]) for a, b in zip(tuned, untuned, strict=True))
    made: dict[str, Any] = {"ratio": paired_ratio(tuned, untuned), "least": ratios[0], "most": ratios[-1]}
    wrong = peers["tilewright_tuned"].get("wrong")
    return made | ({"wrong": wrong} if wrong else {})


def show(results: dict[str, Any]) -> None:
    """The ratios and their geometric mean."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="tuned relative to untuned")
    for column in ("model / threads", "ratio", "rounds from", "to"):
        table.add_column(column, justify="left" if column.startswith("model") else "right")
    for key, r in results.items():
        if "ratio" not in r:
            table.add_row(key, r["error"])
            continue
        mark = " wrong" if "wrong" in r else ""
        table.add_row(key, f"{r['ratio']:.3f}{mark}", f"{r['least']:.3f}", f"{r['most']:.3f}")
    ratios = [r["ratio"] for r in results.values() if "ratio" in r]
    if ratios:
        mean = math.exp(sum([math.log(r) for r in ratios]) / len(ratios))
        table.caption = f"geometric mean {mean:.3f}, worst {max(ratios):.3f}"
    Console(width=None if sys.stdout.isatty() else 120).print(table)
