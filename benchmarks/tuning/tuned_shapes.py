"""Random operators that are slower than their peers, after tuning: how many still are.

    python -m benchmarks tuned_shapes --families all --cases 12 --seed 1 --threads 2 --time 120 --json tuned.jsonl

Draws the cases of `random_shapes` and measures them. Where untuned code is behind the better of ONNX Runtime and torch, it is tuned for
--time seconds, and the untuned and the tuned library are measured in turn with the peers. Results are lines of JSON that accumulate: a run
that is cut off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.options import names, new_file, thread_count
from benchmarks.random_operators.cases import Case, arrays, onnx_model
from benchmarks.random_operators.families import FAMILIES, draw
from benchmarks.random_operators.random_shapes import build, measure_libraries, ratio_of, read


def tuned(model: Any, records: Path, seconds: float) -> tuple[Any, int]:
    """The library with the fastest kernels found in so many seconds, and the number of candidates that were measured."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.relay.backend.model_program import ModelProgram, decide_program
    from tilewright.tuning.building import LocalBuilder
    from tilewright.tuning.cost_model import default_model
    from tilewright.tuning.running.local import LocalRunner
    from tilewright.tuning.session import Limits, Session

    mod, params = relay.frontend.from_onnx(model)
    program, limits = ModelProgram(mod, "llvm", params), Limits(seconds=seconds)
    builder, runner = LocalBuilder(), LocalRunner()
    ends = time.monotonic() + seconds
    try:
        with tvm.transform.PassContext(opt_level=3):
            decide_program(program, builder, runner, records, limits)
            session = Session(program.tasks(records), builder, runner, default_model(), records)
        session.run(Limits(seconds=max(ends - time.monotonic(), 0.0)))
    finally:
        builder.close()
        runner.close()
    options = {"relay.plans": str(records)} if records.exists() else {}
    with tvm.transform.PassContext(opt_level=3, config=options):
        return relay.build(mod, target="llvm", params=params), len(session.records)


def measure(key: str, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """One case: microseconds of each contestant, untuned and, where that is behind, tuned; the ratios to the better peer."""
    given = arrays(case, 1)
    model = onnx_model(case, given)
    libraries = {"tilewright": build(case, model, None)}
    found = measure_libraries(case, model, given, libraries, options.seconds, options.threads)
    if ratio_of(found["us"], "tilewright") > options.above:
        # Once more, since short calls are sometimes disturbed.
        found = measure_libraries(case, model, given, libraries, 4 * options.seconds, options.threads)
    untuned = ratio_of(found["us"], "tilewright")
    if untuned <= options.above:
        return found | {"untuned": untuned}
    with tempfile.TemporaryDirectory() as folder:
        records = options.records / f"{key.replace(':', '_')}.records" if options.records else Path(folder) / "records"
        libraries["tuned"], trials = tuned(model, records, options.time)
    found = measure_libraries(case, model, given, libraries, 4 * options.seconds, options.threads)
    us = found["us"]
    return found | {"untuned": ratio_of(us, "tilewright"), "tuned": ratio_of(us, "tuned"), "trials": trials}


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures what is not there yet."""
    results = read(options.json)
    cases = [(f"{family}:{options.seed}:{i}", family, i) for i in range(options.cases) for family in options.families]
    todo = [c for c in cases if c[0] not in results]
    begun = time.monotonic()
    for done, (key, family, index) in enumerate(todo):
        passed = time.monotonic() - begun
        if options.stop and passed > options.stop:
            print(f"stopped after {done} of {len(todo)}; run again to go on", file=sys.stderr)
            break
        case = draw(family, options.seed, index)
        record = {"key": key, **measure(key, case, options)}
        results[key] = record
        if options.json:
            with options.json.open("a") as f:
                f.write(json.dumps(record) + "\n")
        if "tuned" in record:
            left = (time.monotonic() - begun) / (done + 1) * (len(todo) - done - 1)
            print(
                f"{done + 1} of {len(todo)}: {case}: {record['untuned']:.2f}, tuned {record['tuned']:.2f} by {record['trials']} trials"
                f", about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
    return [results[key] for key, _, _ in cases if key in results]


def show(records: list[dict[str, Any]], above: float) -> None:
    """The cases that were behind beside their tuned library too, and how many of them no longer are. What was behind at first by a
    disturbance alone does not count."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 150)
    behind = sorted([r for r in records if "tuned" in r and r["untuned"] > above], key=lambda r: -r["tuned"])
    table = Table(title="time relative to the faster of ONNX Runtime and torch")
    for column in ("case", "number", "untuned", "tuned", "trials"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for r in behind:
        table.add_row(
            f"{r['kind']}: {r['name']}", r["key"], f"{r['untuned']:.2f}", f"{r['tuned']:.2f}", str(r["trials"])
        )
    console.print(table)
    ahead = [r for r in behind if r["tuned"] <= 1.0]
    share = f" ({len(ahead) / len(behind):.0%})" if behind else ""
    console.print(
        f"{len(records)} cases, {len(behind)} of them behind untuned; of these {len(ahead)}{share} are at or below 1.0 tuned"
    )
    for r in records:
        if not r["error"] <= r["tolerance"]:
            console.print(f"[red]wrong: {r['name']} ({r['key']}) differs from a peer by {r['error']:.1e}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tuned_shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--families", default="all", help=f'of operators: {", ".join(FAMILIES)}; or "all"')
    parser.add_argument("--cases", type=int, default=12, help="how many of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--time", type=float, default=120, help="seconds of tuning of each case that is behind")
    parser.add_argument("--above", type=float, default=1.0, help="the ratio from which on a case is behind")
    parser.add_argument(
        "--seconds", type=float, default=0.08, help="measuring time of each case; four times that where it is behind"
    )
    parser.add_argument("--stop", type=float, help="seconds after which no further case is begun")
    parser.add_argument("--json", type=new_file, help="lines of results, added to; what is there is not measured again")
    parser.add_argument("--records", type=Path, help="a folder that keeps the records of tuning")
    options = parser.parse_args(argv)
    families = ",".join(FAMILIES) if options.families == "all" else options.families
    options.families = names(parser, "--families", families, FAMILIES)
    options.threads = thread_count(parser, options.threads)
    os.environ |= {"TVM_NUM_THREADS": str(options.threads), "OMP_NUM_THREADS": str(options.threads)}
    import torch

    torch.set_num_threads(options.threads)
    results = run(options)
    show(results, options.above)
    return int(any(not r["error"] <= r["tolerance"] for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
