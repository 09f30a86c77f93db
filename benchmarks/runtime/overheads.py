"""What calls cost in two installations of this package, before and after a change: packed calls and executors, interleaved, as ratios."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.options import takes_json, write_json

ROUNDS = 7


def measured(python: str, folder: Path, path: str | None, calls: int) -> dict[str, float]:
    """Nanoseconds by name, as the benchmarks of an installation tell them. path: where its modules are, where no site says it; calls:
    operators of the chain that executors run."""
    env = {**os.environ, "TVM_NUM_THREADS": "1"}
    command = [python, *(["-S"] if path else []), "-m", "benchmarks"]
    if path:
        env["PYTHONPATH"] = path
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        for benchmark, given in (("executor_overhead", ["--calls", str(calls)]), ("packed_call", [])):
            file = Path(name) / f"{benchmark}.json"
            options = [*given, "--json", str(file)]
            subprocess.run([*command, benchmark, *options], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
            data = json.loads(file.read_text())
            for item in data.get("executors", []):
                found[f"{item['executor']}, a call of an operator"] = item["ns_a_call"]
            for item in data["calls"] if isinstance(data["calls"], list) else []:
                found[f"packed call, {item['arguments']}"] = item["ns"]
    return found


def main(argv: list[str] | None = None) -> int:
    """Prints nanoseconds before and after, and the median of the ratios of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks overheads", description=__doc__)
    parser.add_argument("before", type=Path, help="the checkout before the change")
    parser.add_argument("--python", help="the interpreter of that checkout's environment; else BEFORE/.venv/bin/python")
    parser.add_argument("--path", help="PYTHONPATH for it, instead of what its site says")
    parser.add_argument("--calls", type=int, default=500, help="operators of the chain that executors run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    takes_json(parser)
    options = parser.parse_args(argv)
    before = options.python or str(options.before / ".venv/bin/python")
    here = Path(__file__).parents[2]
    rounds = []
    for i in range(options.rounds):
        first = lambda: measured(before, options.before, options.path, options.calls)  # noqa: E731
        second = lambda: measured(sys.executable, here, None, options.calls)  # noqa: E731
        # Whoever goes first has the colder machine.
        pair = (first(), second()) if i % 2 == 0 else (second(), first())[::-1]
        rounds.append(pair)
    print(f"medians of {options.rounds} interleaved rounds, nanoseconds, one thread")
    print(f"{'':<40}{'before':>10}{'after':>10}{'ratio':>8}")
    results = []
    for name in rounds[0][0]:
        pairs = [(a[name], b[name]) for a, b in rounds]
        ratio = statistics.median([b / a for a, b in pairs])
        a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:<40}{a:>10.1f}{b:>10.1f}{ratio:>8.2f}")
        results.append({"what": name, "before_ns": a, "after_ns": b, "ratio": ratio})
    write_json(options, results)
    return 0
