"""ONNX's own backend tests, run by its own runner against `tilewright.backend`: the score of each group, each failure with its reason.

    python -m tests.frontend.onnx.conformance [PATTERN] [--jobs 2] [--seconds 60] [--slowest 10]

Tests run in processes of their own that are replaced when one crashes or takes too long, so every test gets an answer. Times are the
processor's: a machine that is busy, or stops a process for minutes, fails no test.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from multiprocessing.connection import Connection, wait
from typing import Any

GROUPS = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
    "OnnxBackendRealModelTest": "light",
}


EXPLAINED = {
    r"test_bernoulli": "the answer was drawn from a generator of the test's own, without a seed that the model holds",
    r"test_loop16_seq_none": "the runner takes the length of a scalar in a sequence, whatever the answer",
    r"test_dft_inverse": "the answer has the rounding error of one order of float32 sums, 1.9e-7 where the sum is 0",
    r"test_attention_4d_causal_fp16": "the answer rounds to float16 after every step; ours differ in the last bit",
}
"""Why tests cannot pass, by their names. They are run, and count as failures."""
WAITS, PATIENCE = 20, 600.0
"""A test that waits, and computes nothing, may do so for as many of its limits, and for as many seconds at least."""


class Outcome:
    """How one test ended: `reason` is empty when it passed; `seconds` of the processor's time."""

    def __init__(self, group: str, name: str, reason: str, seconds: float) -> None:
        self.group, self.name, self.reason, self.seconds = group, name, reason, seconds


def load() -> dict[tuple[str, str], unittest.TestCase]:
    """All tests for CPU, by group and name. Those that the package's files hold are prepared in a folder of this process."""
    os.environ["ONNX_HOME"] = tempfile.mkdtemp(prefix="onnx-home-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        from tilewright.backend import TilewrightBackend

        classes = BackendTest(TilewrightBackend, __name__).test_cases
    found = {}
    for title, cls in classes.items():
        for name in unittest.defaultTestLoader.getTestCaseNames(cls):
            if name.endswith("_cpu"):
                found[GROUPS[title], name.removesuffix("_cpu")] = cls(name)
    return found


def reason_of(error: str) -> str:
    """The last lines of a traceback, on one line."""
    lines = [x.strip() for x in error.strip().splitlines() if x.strip()]
    starts = [
        i
        for i, x in enumerate(lines)
        if re.match(r"[\w.]+(Error|Exception|Invalid|Implemented|Unsupported|Required)\b", x)
    ]
    return " ".join(lines[starts[-1] if starts else -1 :])


def run_one(test: unittest.TestCase) -> str:
    """ "" when a test passes, else why it does not. A skipped test has not passed."""
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test.run(result)
    for _, text in [*result.errors, *result.failures]:
        return text if os.environ.get("FULL") else reason_of(text)
    return "skipped: " + result.skipped[0][1] if result.skipped else ""


def work(tests: dict[tuple[str, str], unittest.TestCase], pipe: Connection, seconds: float) -> None:
    """A worker: answers each key with (reason, seconds). The system ends it when a test computes for longer than `seconds`."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (the runner prints downloads)
    while True:
        key = pipe.recv()
        if key is None:
            return
        begin = time.process_time()
        resource.setrlimit(
            resource.RLIMIT_CPU, (math.ceil(begin + seconds), resource.getrlimit(resource.RLIMIT_CPU)[1])
        )
        try:
            reason = run_one(tests[key])
        except BaseException:
            reason = reason_of(traceback.format_exc())
        pipe.send((reason, time.process_time() - begin))


class Worker:
    """A process that runs tests, and what it is at."""

    def __init__(self, tests: dict[tuple[str, str], unittest.TestCase], seconds: float) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(tests, other, seconds), daemon=True)
        self.process.start()
        other.close()
        self.key: tuple[str, str] | None = None
        self.begin = 0.0

    def give(self, key: tuple[str, str]) -> None:
        self.key, self.begin = key, time.monotonic()
        self.pipe.send(key)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def run_all(
    tests: dict[tuple[str, str], unittest.TestCase], jobs: int, seconds: float, show: bool = True
) -> list[Outcome]:
    """The outcome of every test, in the order in which they ended."""
    rest = list(tests)[::-1]
    outcomes: list[Outcome] = []
    workers = [Worker(tests, seconds) for _ in range(min(jobs, len(rest)))]
    while len(outcomes) < len(tests):
        for w in workers:
            if w.key is None and rest:
                w.give(rest.pop())
        ready = wait([w.pipe for w in workers if w.key is not None], timeout=1)
        for k, w in enumerate(workers):
            if w.key is None:
                continue
            waited = time.monotonic() - w.begin
            reason, took = None, seconds
            if w.pipe in ready:
                try:
                    reason, took = w.pipe.recv()
                except EOFError:
                    w.process.join()
                    late = w.process.exitcode == -signal.SIGXCPU
                    reason = (
                        f"it took longer than {seconds:g} s of the processor's time"
                        if late
                        else f"the process ended with code {w.process.exitcode}"
                    )
                    workers[k] = Worker(tests, seconds)
            elif waited > max(WAITS * seconds, PATIENCE):
                reason = f"it did not end in {max(WAITS * seconds, PATIENCE):g} s"
                w.stop()
                workers[k] = Worker(tests, seconds)
            if reason is not None:
                outcomes.append(Outcome(*w.key, reason, took))
                w.key = None
                if show:
                    progress(outcomes, len(tests))
    for w in workers:
        w.stop()
    if show:
        print(file=sys.stderr)
    return outcomes


def progress(outcomes: list[Outcome], total: int) -> None:
    """One line on a terminal, every hundredth test elsewhere."""
    done = len(outcomes)
    if sys.stderr.isatty() or done % 100 == 0 or done == total:
        passed = sum(not o.reason for o in outcomes)
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{done} of {total} tests, {passed} passed", end=end, file=sys.stderr, flush=True)


def explanation(name: str) -> str:
    """Why a test cannot pass; "" for all others."""
    return next((why for pattern, why in EXPLAINED.items() if re.match(pattern, name)), "")


def report(outcomes: list[Outcome], slowest: int) -> None:
    """Failures, then the score of each group."""
    for o in sorted(outcomes, key=lambda o: (o.group, o.name)):
        if o.reason:
            why = explanation(o.name)
            print(f"{o.group}  {o.name}: {f'[{why}] ' if why else ''}{o.reason}")
    for o in sorted(outcomes, key=lambda o: -o.seconds)[:slowest]:
        print(f"{o.seconds:6.1f} s  {o.name}")
    for group in GROUPS.values():
        mine = [o for o in outcomes if o.group == group]
        if mine:
            print(f"{group}: {sum(not o.reason for o in mine)} of {len(mine)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="regular expression that test names must contain")
    parser.add_argument("--group", choices=list(GROUPS.values()), help="only this group")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="limit for one test, of the processor's time")
    parser.add_argument("--slowest", type=int, default=0, help="show the slowest tests")
    args = parser.parse_args()
    tests = {key: t for key, t in load().items() if re.search(args.pattern, key[1]) and args.group in (None, key[0])}
    outcomes = run_all(tests, args.jobs, args.seconds)
    report(outcomes, args.slowest)
    sys.exit(any([o.reason for o in outcomes]))


if __name__ == "__main__":
    main()
