"""meta_schedule beside that of apache-tvm's package: what both find in as many measurements, and how many they measure a minute.

Both tune the same computes in processes of their own, one after the other, the first one in turns. Then their fastest kernels run in
turns. A ratio is our time over theirs. On one thread, times are processor times, so that other load on the machine does not decide. The
package needs an environment of its own, whose Python APACHE_TVM names: `make build/apache-tvm/.done` makes build/apache-tvm.
Outputs are compared with those of the kernel by the rules, untuned. Where the package's fastest kernel computes something else, the row
says so; the exit status is 1 if one of ours does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

import tilewright as tvm
from benchmarks.options import names, takes_json, thread_count, write_json
from benchmarks.tuning.tuned_kernels import KERNELS, Language
from benchmarks.tuning.tuner import inputs_of
from tilewright import te, tir

WHO = ("tilewright", "apache-tvm")
THEIRS = "build/apache-tvm/bin/python"
MODULE = "benchmarks.tuning.tuner"
SECONDS = 0.02
"""Of a burst of calls."""


class Process:
    """A process that tunes and runs kernels (`benchmarks.tuning.tuner`)."""

    def __init__(self, python: str, name: str, threads: int) -> None:
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the process)
        environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [python, "-m", MODULE, name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            env=environment,
        )

    def ask(self, **command: Any) -> Any:
        """The answer to a command. Raises RuntimeError if the process ended."""
        to, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        to.write(json.dumps(command) + "\n")
        to.flush()
        line = answers.readline()
        if not line:
            self._words.seek(0)
            raise RuntimeError(f"{self._process.args} ended at {command}:\n{self._words.read()[-2000:]}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        cast("IO[str]", self._process.stdin).close()
        self._process.wait()


def compared(kernel: str, ours: Process, theirs: Process, options: argparse.Namespace, number: int) -> dict[str, Any]:
    """What both reach with a kernel."""
    order = [ours, theirs] if number % 2 == 0 else [theirs, ours]
    tuned = {process: process.ask(tune=kernel, trials=options.trials, seed=options.seed) for process in order}
    times: dict[Process, list[float]] = {ours: [], theirs: []}
    for _ in range(options.repeats):
        order.reverse()
        for process in order:
            times[process].append(process.ask(burst=SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        values = []
        for i, process in enumerate((ours, theirs)):
            path = Path(folder) / f"{i}.npy"
            process.ask(outputs=str(path))
            values.append(np.load(path))
    expected = untuned(kernel)
    wrong = [not np.allclose(found, expected, rtol=1e-3, atol=1e-4) for found in values]
    minutes = [60 * tuned[p]["trials"] / tuned[p]["seconds"] for p in (ours, theirs)]
    return {
        "kernel": kernel,
        "ratio": statistics.median(times[ours]) / statistics.median(times[theirs]),
        "ours_us": 1e6 * statistics.median(times[ours]),
        "theirs_us": 1e6 * statistics.median(times[theirs]),
        "ours_a_minute": minutes[0],
        "theirs_a_minute": minutes[1],
        "valid": [tuned[p]["valid"] for p in (ours, theirs)],
        "wrong": wrong,
    }


def untuned(kernel: str) -> Any:
    """The output of a kernel by the rules alone."""
    tensors = KERNELS[kernel](Language(te, tir))
    arrays = [tvm.nd.array(values) for values in inputs_of(tensors)]
    tvm.build(te.create_prim_func(tensors), target="llvm")(*arrays)
    return arrays[-1].numpy()


def main(argv: list[str] | None = None) -> int:
    """Prints ratios, and candidates a minute."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning_peers", description=__doc__)
    parser.add_argument("--kernels", default=",".join(KERNELS), help="some of %(default)s")
    parser.add_argument("--trials", type=int, default=128, help="measurements of each kernel (default: 128)")
    parser.add_argument("--threads", default="1", help="threads of kernels (default: 1)")
    parser.add_argument("--repeats", type=int, default=20, help="bursts of calls of each fastest kernel (default: 20)")
    parser.add_argument("--seed", type=int, default=1)
    takes_json(parser)
    options = parser.parse_args(argv)
    kernels = names(parser, "--kernels", options.kernels, KERNELS)
    threads = thread_count(parser, options.threads)
    python = os.environ.get("APACHE_TVM", THEIRS)
    if not Path(python).exists():
        print(f"there is no {python}: make build/apache-tvm/.done, or set APACHE_TVM", file=sys.stderr)
        return 1
    ours, theirs = Process(sys.executable, WHO[0], threads), Process(python, WHO[1], threads)
    found = []
    print(f"{'kernel':10} {'ratio':>6} {'us':>10} {'theirs':>10} {'a minute':>9} {'theirs':>8} {'times':>6}")
    try:
        for number, kernel in enumerate(kernels):
            row = compared(kernel, ours, theirs, options, number)
            found.append(row)
            print(
                f"{kernel:10} {row['ratio']:6.2f} {row['ours_us']:10.1f} {row['theirs_us']:10.1f} {row['ours_a_minute']:9.0f}"
                f" {row['theirs_a_minute']:8.0f} {row['ours_a_minute'] / row['theirs_a_minute']:6.1f}"
                + "".join(
                    [f"  {who} computes something else" for who, bad in zip(WHO, row["wrong"], strict=True) if bad]
                ),
                flush=True,
            )
            write_json(options, found)
    finally:
        ours.close()
        theirs.close()
    return int(any([row["wrong"][0] for row in found]))
