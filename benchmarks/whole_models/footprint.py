"""Peak memory of whole processes that load a model and run it, beside the peers': resident sets of processes of their own.

    python -m benchmarks footprint --models resnet50,bert_base

"tilewright" compiles and runs in one process, as a peer does that takes an .onnx file; "tilewright_library" runs a library that
was compiled before. First the peak of the process until the first result, then, counted anew, the peak while it runs. The ratio is
the library's peak while running by ONNX Runtime's: at most 1 is promised.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import models
from benchmarks.contests.contest import Contestant
from benchmarks.options import takes_json, thread_count, write_json
from benchmarks.peers import PEERS, installed

CONTESTANTS = ("tilewright", "tilewright_library", "onnxruntime", "openvino")


def measure(model: str, threads: int, peers: list[str]) -> dict[str, Any]:
    """MB by contestant: `until_first`, `running`."""
    models.make(model)
    result: dict[str, Any] = {"model": model, "threads": threads}
    for peer in peers:
        contestant = Contestant(peer, model, threads)
        try:
            contestant.start()
            contestant.ask({"burst": 5})
            running = contestant.ask({"memory": True})["running_mb"]
        finally:
            contestant.close()
        result[peer] = {"until_first": contestant.facts["compile_mb"], "running": running}
    return result


def main(argv: list[str]) -> int:
    from rich.table import Table

    from benchmarks.contests.standing import console

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks footprint", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="all", help=f"comma-separated, or 'all': {', '.join(models.BENCHMARKED)}")
    parser.add_argument("--threads", default="1", help="threads of each contestant")
    takes_json(parser)
    options = parser.parse_args(argv)
    threads = thread_count(parser, options.threads)
    names = list(models.BENCHMARKED) if options.models == "all" else options.models.split(",")
    for name in names:
        if not models.is_known(name):
            parser.error(f"there is no model {name!r}; there are {', '.join(models.ALL + models.RANDOM_NAMES)}")
    if gone := PEERS["onnxruntime"].missing():
        parser.error(gone)
    peers = installed(CONTESTANTS)
    results = [measure(name, threads, peers) for name in names]
    table = Table(title="peak resident MB: until the first result / while running")
    for column in ("model", *peers, "library / ONNX Runtime"):
        table.add_column(column, justify="left" if column == "model" else "right")
    over = []
    for r in results:
        ratio = r["tilewright_library"]["running"] / r["onnxruntime"]["running"]
        over += [r["model"]] if ratio > 1 else []
        cells = [f"{r[p]['until_first']:.0f} / {r[p]['running']:.0f}" for p in peers]
        table.add_row(r["model"], *cells, f"[{'red' if ratio > 1 else 'green'}]{ratio:.2f}")
    console().print(table)
    write_json(options, results)
    return int(bool(over))
