"""Compiled programs and models on the GPU of this machine (`make test-gpu`): a table, and the same as JSON.

python -m tests.on_gpu [--seconds 420] [--json build/test_gpu.json]

The architecture is that of cuda(0). What did not run in time is named as left out; a test that does not end is broken off, with the place
where it is, and the JSON says what was left out then, too. The exit status is 1 where a test fails or was left out, where none ran, and
where there is no GPU.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from benchmarks.gpus.measuring import Deadline
from tilewright.runtime.found_devices import found_devices

FILES = (
    "tests/codegen/device/on_devices.py",
    *[f"tests/scheduling/gpu/{name}.py" for name in ("on_devices", "operators_on_devices", "on_cuda")],
)
LEFT_OUT = "left out"
TO_END = 50.0
"""Seconds that the last test may take after the deadline."""


def target() -> str:
    """The target of this machine's GPU. Raises RuntimeError where there is none, with the reason."""
    found = found_devices("cuda")
    if not found.devices:
        raise RuntimeError(found.why)
    version = str(tvm.cuda(0).compute_version)
    # From 9.0 on, matrix units are instructions of one architecture alone.
    return f"cuda -arch=sm_{version.replace('.', '')}{'a' if float(version) >= 9 else ''}"


class Outcomes:
    """What pytest tells of each test. After the deadline none begins."""

    def __init__(self, deadline: Deadline, write: Callable[[Outcomes], None]) -> None:
        self.deadline, self.write = deadline, write
        self.counts: dict[str, Counter[str]] = {}
        self.failed: dict[str, str] = {}
        self.left_out: dict[str, None] = {}
        """Tests that have not ended, in order."""
        self.seconds: Counter[str] = Counter()

    def pytest_collection_finish(self, session: Any) -> None:
        self.left_out = dict.fromkeys([item.nodeid for item in session.items])
        self.write(self)

    def pytest_runtest_protocol(self) -> bool | None:
        return None if self.deadline.left > 0 else True

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        del self.left_out[nodeid]
        self.write(self)

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.counts.setdefault(file, Counter())[report.outcome] += 1
        if report.outcome == "failed":
            self.failed[report.nodeid] = str(report.longrepr)[-2000:]


def table(outcomes: Outcomes) -> list[str]:
    """The outcomes of each file."""
    kinds = ("passed", "failed", "skipped")
    left_out = Counter([name.partition("::")[0] for name in outcomes.left_out])
    lines = [f"{'file':48}" + "".join([f"{kind:>9}" for kind in (*kinds, LEFT_OUT)]) + f"{'seconds':>9}"]
    for file in dict.fromkeys([*outcomes.counts, *left_out]):
        counts = outcomes.counts.get(file, Counter())
        numbers = "".join([f"{counts[kind]:9}" for kind in kinds]) + f"{left_out[file]:9}"
        lines.append(f"{file:48}{numbers}{outcomes.seconds[file]:9.1f}")
    return lines


def run(files: Sequence[str], outcomes: Outcomes, *options: str) -> int:
    """The exit status of tests: 1 also where some were left out, which is told."""
    status = int(pytest.main(["-q", *options, *files], plugins=[outcomes]))
    outcomes.write(outcomes)
    if outcomes.left_out:
        print(f"\nnot run, for the time was over: {len(outcomes.left_out)} tests", *outcomes.left_out, sep="\n  ")
    return status or int(bool(outcomes.left_out))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.on_gpu", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, default=Path("build/test_gpu.json"))
    parser.add_argument("--seconds", type=float, default=420.0, help="after which no further test begins (420)")
    options = parser.parse_args(argv)
    if options.seconds <= 0:
        parser.error(f"--seconds takes a positive number, but was given {options.seconds:g}")
    begin, deadline = time.monotonic(), Deadline(options.seconds)
    try:
        chosen = target()
    except RuntimeError as error:
        print(f"there is no GPU to test on: {error}", file=sys.stderr)
        return 1
    os.environ["DEVICE_TARGET"] = chosen
    device = tvm.cuda(0)
    options.json.parent.mkdir(parents=True, exist_ok=True)

    def write(outcomes: Outcomes) -> None:
        facts = {
            "device": device.device_name,
            "driver": device.driver_version,
            "target": chosen,
            "seconds": round(time.monotonic() - begin, 1),
            "files": {file: dict(counts) for file, counts in outcomes.counts.items()},
            "failed": outcomes.failed,
            LEFT_OUT: list(outcomes.left_out),
        }
        options.json.write_text(json.dumps(facts, indent=1) + "\n")

    outcomes = Outcomes(deadline, write)
    # A kernel that does not end keeps its thread: another one ends the process, with the exit status 1, and says where it is.
    with os.fdopen(os.dup(2), "w") as said:
        faulthandler.enable(said)
        faulthandler.dump_traceback_later(options.seconds + TO_END, exit=True, file=said)
        status = run(FILES, outcomes, "-p", "no:faulthandler")
        faulthandler.cancel_dump_traceback_later()
        faulthandler.disable()
    print(f"\n{device.device_name}, {chosen}", *table(outcomes), f"written to {options.json}", sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
