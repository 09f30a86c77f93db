"""Whole models through the target c beside LLVM: difference of the outputs, and latency over LLVM's, by C compiler.

    python -m benchmarks c_source --models resnet50,mobilenetv2,bert_base --compilers c,zig

Contestants take turns in processes of their own (contests/contest.py). A ratio is the median over the rounds of the time of the C code by
LLVM's in the same round. The exit status is 1 where outputs differ by more than 1e-5 of the largest, or a ratio is above 3.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

from benchmarks import models
from benchmarks.contests.contest import contest
from benchmarks.options import names, takes_json, thread_counts, write_json

COMPILERS = {"c": "tilewright_c", "zig": "tilewright_zig"}
MOST_DIFFERENCE, MOST_RATIO = 1e-5, 3.0


def compared(found: dict[str, Any], peer: str) -> dict[str, Any]:
    """One model of one compiler beside LLVM."""
    facts, base = found["peers"][peer], found["peers"]["tilewright"]
    row = {"model": found["model"], "threads": found["threads"], "contestant": peer}
    if error := facts.get("error") or base.get("error"):
        return {**row, "error": error, "bad": True}
    rounds = zip(facts["rounds"], base["rounds"], strict=True)
    ratio = statistics.median([statistics.median(a) / statistics.median(b) for a, b in rounds])
    bad = not facts["difference"] <= MOST_DIFFERENCE or ratio > MOST_RATIO
    return {**row, "difference": facts["difference"], "ratio": ratio, "compile_s": facts["compile_s"], "bad": bad}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_source", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="resnet50,mobilenetv2,bert_base", help="names with commas between")
    parser.add_argument("--compilers", default="c,zig", help="of c (that of the machine, or CC) and zig")
    parser.add_argument("--threads", default="1", help="numbers of threads")
    parser.add_argument("--rounds", type=int, default=15, help="bursts of each contestant")
    takes_json(parser)
    options = parser.parse_args(argv)
    peers = [COMPILERS[c] for c in names(parser, "--compilers", options.compilers, COMPILERS)]
    rows = []
    print(
        f"{'model':24} {'threads':>7} {'contestant':16} {'difference':>10} {'latency over LLVM':>17} {'compile s':>9}"
    )
    for model in names(parser, "--models", options.models, models.known()):
        for threads in thread_counts(parser, options.threads):
            found = contest(model, threads, ["tilewright", *peers], 600.0, options.rounds)
            for peer in peers:
                row = compared(found, peer)
                rows.append(row)
                told = f"{row['model']:24} {row['threads']:7} {row['contestant']:16}"
                if "error" in row:
                    print(f"{told} failed: {row['error']}")
                else:
                    print(f"{told} {row['difference']:10.1e} {row['ratio']:17.2f} {row['compile_s']:9.1f}")
                sys.stdout.flush()
    write_json(options, rows)
    return int(any([row["bad"] for row in rows]))
