"""Latency of whole models beside the peers: same inputs, same cores, in turn in one run; medians, memory, compile time.

    python -m benchmarks latency --models resnet50,bert_base --threads 1,2 --batch 1,8
    python -m benchmarks latency --models all --peers all --resume build/latency.json --limit 80 --chart latency.png
    python -m benchmarks latency --models all --before ../earlier/.venv/bin/python

Every contestant has a process of its own for each (model, threads) and they take turns in short bursts (contests/contest.py). Outputs
are compared with a peer's. A ratio is the median over the rounds of our time by the other's in the same round; the best peer is the one of
the same precision with the lowest median. "running MB" is the peak of the resident set while the model runs, of the whole process.
With --resume a run can be cut into pieces: rounds are added to those in the file until each model has --rounds of them.
The exit status is 1 if a contestant failed or computed something else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.contests.contest import contest
from benchmarks.contests.standing import geometric_means, markdown, show, standing
from benchmarks.options import new_file, numbers, takes_json, thread_counts, write_json
from benchmarks.peers import BEFORE, PEERS, USUAL, installed

Results = dict[str, dict[str, Any]]


def chosen_peers(parser: argparse.ArgumentParser, text: str | None) -> list[str]:
    """The contestants by name; those that are not installed are refused where they were named, else left out."""
    if text not in (None, "all"):
        names = str(text).split(",")
        for name in names:
            if name not in PEERS:
                parser.error(f"there is no peer {name!r}; there are {', '.join(PEERS)}")
            gone = PEERS[name].missing()
            if gone:
                parser.error(gone)
        return names
    names = (
        list(USUAL)
        if text is None
        else [p for p in PEERS if PEERS[p].precision == "float32" and (p == "tilewright" or not PEERS[p].ours)]
    )
    return installed(names)


def chosen_models(parser: argparse.ArgumentParser, text: str, batches: list[int]) -> list[str]:
    names = list(models.BENCHMARKED) if text == "all" else text.split(",")
    for name in names:
        if not models.is_known(name):
            parser.error(f"there is no model {name!r}; there are {', '.join(models.ALL + models.RANDOM_NAMES)}")
        if batches != [1] and models.split_batch(name)[1] != 1:
            parser.error(f"model {name!r} names its batch already; leave one of it and --batch out")
    return models.batched(names, batches)


def options_of(argv: list[str]) -> tuple[argparse.Namespace, list[str], list[str], list[int]]:
    """The options; models, contestants and numbers of threads."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = f"comma-separated, or 'all': {', '.join(models.BENCHMARKED)}"
    parser.add_argument("--models", default="resnet50,bert_base,mobilenetv2", help=known)
    parser.add_argument("--batch", default="1", help="batches, such as 1,8")
    parser.add_argument("--threads", default="1,2", help="numbers of threads; each contestant gets as many cores")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}; 'all' for all in float32; default: {','.join(USUAL)}")
    parser.add_argument(
        "--before",
        metavar="PYTHON",
        help="the Python of an environment with an earlier version of this compiler, which takes part as tilewright_before",
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time per contestant and model")
    parser.add_argument("--rounds", type=int, default=15, help="bursts of each contestant")
    parser.add_argument("--cold", action="store_true", help="compile with empty caches, so that compile times are cold")
    parser.add_argument("--limit", type=float, help="seconds after which no other model is begun")
    parser.add_argument(
        "--resume", type=new_file, help="JSON file to go on from, and to keep results in after each model"
    )
    takes_json(parser)
    parser.add_argument("--markdown", action="store_true", help="also print the ratios as a Markdown table")
    parser.add_argument("--chart", type=new_file, help="also draw the ratios here (PNG)")
    options = parser.parse_args(argv)
    threads = thread_counts(parser, options.threads)
    if options.rounds < 3 or options.seconds <= 0:
        parser.error("--rounds must be at least 3 and --seconds positive")
    names = chosen_models(parser, options.models, numbers(parser, "--batch", options.batch))
    if options.before is not None:
        python = shutil.which(options.before)
        if python is None:
            parser.error(f"--before takes a Python to run, but {options.before!r} is none")
        os.environ[BEFORE] = os.path.abspath(python)
    peers = chosen_peers(parser, options.peers)
    return options, names, peers + ["tilewright_before"] * (options.before is not None), threads


def missing_rounds(held: dict[str, Any] | None, peers: list[str], rounds: int) -> int:
    """Rounds still to run, so that every contestant has as many as asked for."""
    if held is None:
        return rounds
    done = [len(held["peers"].get(p, {}).get("rounds", ())) for p in peers if "error" not in held["peers"].get(p, {})]
    return max(0, rounds - min(done, default=0))


def add(held: dict[str, Any] | None, found: dict[str, Any]) -> dict[str, Any]:
    """Earlier results with new rounds behind; facts of memory and compile time are the largest and the first seen."""
    if held is None:
        return found
    for peer, facts in found["peers"].items():
        old = held["peers"].get(peer, {})
        if "rounds" in old and "rounds" in facts:
            facts["rounds"] = old["rounds"] + facts["rounds"]
            facts["running_mb"] = max(old["running_mb"], facts["running_mb"])
            if old.get("cold") and not facts["cold"]:
                facts |= {k: old[k] for k in ("compile_s", "compile_mb", "cold")}
    return {**held, **found, "peers": held["peers"] | found["peers"]}


def save(path: Path, results: Results) -> None:
    partial = path.with_name(path.name + ".new")
    partial.write_text(json.dumps(results, indent=1))
    os.replace(partial, path)


def main(argv: list[str]) -> int:
    options, names, peers, threads = options_of(argv)
    results: Results = {}
    if options.resume is not None and options.resume.exists():
        results = json.loads(options.resume.read_text())
    pairs = [(name, t) for name in names for t in threads]
    start = time.monotonic()
    for done, (name, t) in enumerate(pairs):
        key = f"{name}/{t}"
        rounds = missing_rounds(results.get(key), peers, options.rounds)
        if not rounds:
            continue
        passed = time.monotonic() - start
        if options.limit is not None and passed > options.limit:
            print(f"stopped after {passed:.0f} s; {len(pairs) - done} still to measure", file=sys.stderr)
            break
        print(f"{done + 1} of {len(pairs)}: {name}, {t} threads, at {passed:.0f} s", file=sys.stderr, flush=True)
        found = contest(name, t, peers, options.seconds, max(rounds, 3), options.cold)
        results[key] = add(results.get(key), found)
        if options.resume is not None:
            save(options.resume, results)
    asked = [results[f"{name}/{t}"] for name, t in pairs if f"{name}/{t}" in results]
    rows = [standing(r, peers) for r in asked]
    show(rows, peers)
    if options.markdown:
        print(markdown(rows))
    write_json(options, {"models": rows, "geometric_means": geometric_means(rows)})
    if options.chart is not None:
        from benchmarks.contests.chart import draw_latency

        draw_latency(rows, options.chart)
    bad = [f for r in rows for f in r["peers"].values() if f.get("wrong")]
    failed = [p for r in rows for p, f in r["peers"].items() if "error" in f and PEERS[p].ours]
    return int(bool(bad or failed))
