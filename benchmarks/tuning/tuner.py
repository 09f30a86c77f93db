"""A process that tunes kernels by meta_schedule, of this compiler or of apache-tvm's package, and then runs what it found.

    python -m benchmarks.tuning.tuner tilewright|apache-tvm THREADS

Commands come as JSON, one a line, on standard input, and answers go, one a line, to standard output: {"tune": kernel, "trials": n,
"seed": s} answers the seconds of the whole call and the number of measurements, and how many of them are valid; then {"burst": n}
answers seconds of a call, over as many as take n seconds, and {"outputs": file} writes the output for the inputs of `inputs_of`, which
are the same in all processes.
This module imports nothing of the project but the computes, since the other compiler has an environment of its own.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tuning.tuned_kernels import KERNELS, Language

PATIENCE = 60.0
"""Seconds that a compilation or a measurement may take: twice the default of both, for loaded machines. apache-tvm compiles long unrolled
code for minutes."""
FAILED = 1e9
"""Seconds that records have in the place of a failure."""


class Tuner:
    """A compiler. modules: `te` and `tir`; ms: its meta_schedule; target: this machine; build: (scheduled module) -> a callable module;
    array: (values) -> an array of its own; threads: of kernels."""

    def __init__(
        self, language: Language, ms: Any, target: Any, build: Callable[[Any], Any], array: Any, threads: int
    ) -> None:
        self.language, self.ms, self.target, self.build, self.array, self.threads = (
            language,
            ms,
            target,
            build,
            array,
            threads,
        )
        self._run: Callable[[], Any] = lambda: None
        self._arrays: list[Any] = []

    def tune(self, kernel: str, trials: int, seed: int) -> dict[str, Any]:
        tensors = KERNELS[kernel](self.language)
        func = self.language.te.create_prim_func(tensors).with_attr("global_symbol", "main")
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            database = self.ms.tune_tir(
                func, self.target, folder, trials, num_trials_per_iter=min(trials, 64), seed=seed, **self.parts()
            )
            seconds = time.perf_counter() - begun
            records = [[float(s) for s in r.run_secs] for r in database.get_all_tuning_records()]
            sch = self.ms.tir_integration.compile_tir(database, func, self.target)
        valid = [min(r) for r in records if max(r) < FAILED]
        module = self.build(sch.mod)
        self._arrays = [self.array(values) for values in inputs_of(tensors)]
        run = module["main"]
        self._run = lambda: run(*self._arrays)
        return {"seconds": seconds, "trials": len(records), "valid": len(valid), "claimed": min(valid, default=FAILED)}

    def parts(self) -> dict[str, Any]:
        """Builders and runners with time enough: on a loaded machine, apache-tvm's processes start more slowly than a job may last."""
        return {
            "builder": self.ms.builder.LocalBuilder(timeout_sec=PATIENCE),
            "runner": self.ms.runner.LocalRunner(timeout_sec=PATIENCE),
        }

    def burst(self, seconds: float) -> float:
        """Seconds of a call, over as many as take the seconds that are given: of the processor, for kernels of one thread."""
        clock = time.process_time if self.threads == 1 else time.perf_counter

        def timed(calls: int) -> float:
            begun = clock()
            for _ in range(calls):
                self._run()
            return (clock() - begun) / calls

        return timed(max(math.ceil(seconds / max(timed(2), 1e-7)), 1))

    def outputs(self) -> np.ndarray[Any, Any]:
        self._run()
        found: np.ndarray[Any, Any] = self._arrays[-1].numpy()
        return found


def inputs_of(tensors: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Values for the parameters of a kernel; zeros for the last one, its output."""
    random = np.random.default_rng(0)
    shapes = [[int(n) for n in t.shape] for t in tensors]
    return [random.uniform(-1, 1, s).astype("float32") for s in shapes[:-1]] + [np.zeros(shapes[-1], "float32")]


def tilewright(threads: int) -> Tuner:
    import tilewright as tvm
    from tilewright import meta_schedule, te, tir

    target = tvm.target.Target({"kind": "llvm", "num-cores": threads})
    return Tuner(
        Language(te, tir), meta_schedule, target, lambda mod: tvm.build(mod, target=target), tvm.nd.array, threads
    )


def apache_tvm(threads: int) -> Tuner:
    import tvm
    from tvm import te, tirx
    from tvm.s_tir import meta_schedule

    host = str(tvm.get_global_func("target.llvm_get_system_cpu")())
    target = tvm.target.Target({"kind": "llvm", "mcpu": host, "num-cores": threads})

    def build(mod: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "kernel.so")
            tvm.compile(mod, target).export_library(path)
            return tvm.runtime.load_module(path)

    return Tuner(Language(te, tirx), meta_schedule, target, build, tvm.runtime.tensor, threads)


TUNERS = {"tilewright": tilewright, "apache-tvm": apache_tvm}


def serve() -> None:
    """Answers commands until the input ends."""
    name, threads = sys.argv[1:]
    # What libraries print goes to standard error; answers have a descriptor of their own.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        tuner = TUNERS[name](int(threads))
        for line in sys.stdin:
            match json.loads(line):
                case {"tune": kernel, "trials": trials, "seed": seed}:
                    answer: Any = tuner.tune(kernel, trials, seed)
                case {"burst": seconds}:
                    answer = tuner.burst(seconds)
                case {"outputs": path}:
                    np.save(path, tuner.outputs())
                    answer = True
            replies.write(json.dumps(answer) + "\n")
            replies.flush()


if __name__ == "__main__":
    serve()
