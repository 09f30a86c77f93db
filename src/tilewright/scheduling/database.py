"""Plans that are kept: a text file of lines of JSON, one for each kernel and target.

    {"version": "0.1.0", "kernel": "8f3c..", "name": "fused_nn_dense", "target": "llvm -mcpu=znver4", "plan": {"T_dense.tile": [6, 2]}}

`kernel` is the digest of the primitive function, or the name of a problem of a program's plan (graph_plan.py), such as
"dense(1x512x1000, 32 bits)" with {"panel": 32}. Of several lines for a kernel and target the last counts, so a better plan is
appended. A build finds plans in the file that the option `relay.plans` names; what no plan decides, the cost model decides.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION

FIELDS: dict[str, type] = {"version": str, "kernel": str, "name": str, "target": str, "plan": dict}


class PlanWarning(UserWarning):
    """A kept plan that cannot be used, or not in all of its decisions."""


class PlanDatabase:
    """The plans of a file. Lines that are damaged or of another version are left out, each with a PlanWarning that says why.

    Raises TVMError for a file that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.plans: dict[tuple[str, str], dict[str, Any]] = {}
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TVMError(f"the plans of {self.path} cannot be read: {error}") from None
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            record, why = _record(line)
            if record is None:
                warnings.warn(f"{self.path}:{number} is left out: {why}", PlanWarning, stacklevel=2)
            else:
                self.plans[record["kernel"], record["target"]] = record["plan"]

    def find(self, kernel: str, target: str) -> Mapping[str, Any]:
        """The decisions for a kernel (its digest) and a target; empty where there are none."""
        return self.plans.get((kernel, target), {})

    def of_problems(self, target: str) -> dict[str, Any]:
        """What is decided for a target about problems of programs, by the names of decisions."""
        found = [(kernel, plan) for (kernel, t), plan in self.plans.items() if t == target and kernel.endswith(")")]
        return {f"{problem}.{what}": value for problem, plan in found for what, value in plan.items()}


def append_plan(path: str | os.PathLike[str], kernel: str, name: str, target: str, plan: Mapping[str, Any]) -> None:
    """Add the plan of a kernel to a file, created if it is missing. The line is written at once, so other processes may append
    to the same file, and is on the disk when this returns."""
    record = {"version": VERSION, "kernel": kernel, "name": name, "target": target, "plan": dict(plan)}
    line = json.dumps(record).encode() + b"\n"
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(file).st_size
        # A process that was killed may have left a line without its end.
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def _record(line: str) -> tuple[dict[str, Any] | None, str]:
    """A line's record, or None and the reason."""
    try:
        found = json.loads(line)
    except ValueError as error:
        return None, f"it is no JSON ({error})"
    if not isinstance(found, dict):
        return None, f"it is a {type(found).__name__}, not an object"
    for field, kind in FIELDS.items():
        if not isinstance(found.get(field), kind):
            return None, f"its field {field!r} is missing, or is no {kind.__name__}"
    if found["version"] != VERSION:
        return (
            None,
            f"it was written by version {found['version']}, and this is {VERSION}: decisions may have other meanings",
        )
    return found, ""


__all__ = ["PlanDatabase", "PlanWarning", "append_plan"]
