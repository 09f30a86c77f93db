"""Compiled programs and models on the GPU of this machine (`make test-gpu`): a table, and the same as JSON.

python -m tests.on_gpu [--json build/test_gpu.json]

The architecture is that of cuda(0). The exit status is 1 where a test fails, where none ran, and where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from tilewright.runtime.found_devices import found_devices

FILES = (
    "tests/codegen/device/on_devices.py",
    *[f"tests/scheduling/gpu/{name}.py" for name in ("on_devices", "operators_on_devices", "on_cuda")],
)


def target() -> str:
    """The target of this machine's GPU. Raises RuntimeError where there is none, with the reason."""
    found = found_devices("cuda")
    if not found.devices:
        raise RuntimeError(found.why)
    version = str(tvm.cuda(0).compute_version)
    # From 9.0 on, matrix units are instructions of one architecture alone.
    return f"cuda -arch=sm_{version.replace('.', '')}{'a' if float(version) >= 9 else ''}"


class Outcomes:
    """What pytest tells of each test."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failed: dict[str, str] = {}
        self.seconds: Counter[str] = Counter()

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
    lines = [f"{'file':48}" + "".join([f"{kind:>9}" for kind in kinds]) + f"{'seconds':>9}"]
    for file, counts in outcomes.counts.items():
        lines.append(f"{file:48}" + "".join([f"{counts[kind]:9}" for kind in kinds]) + f"{outcomes.seconds[file]:9.1f}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.on_gpu", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("build/test_gpu.json"))
    options = parser.parse_args(argv)
    try:
        chosen = target()
    except RuntimeError as error:
        print(f"there is no GPU to test on: {error}", file=sys.stderr)
        return 1
    os.environ["DEVICE_TARGET"] = chosen
    outcomes, begin = Outcomes(), time.monotonic()
    status = int(pytest.main(["-q", *FILES], plugins=[outcomes]))
    device = tvm.cuda(0)
    facts = {
        "device": device.device_name,
        "driver": device.driver_version,
        "target": chosen,
        "seconds": round(time.monotonic() - begin, 1),
        "files": {file: dict(counts) for file, counts in outcomes.counts.items()},
        "failed": outcomes.failed,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(facts, indent=1) + "\n")
    print(f"\n{device.device_name}, {chosen}", *table(outcomes), f"written to {options.json}", sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
