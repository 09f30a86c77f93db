"""Decisions that are kept in a file: lines of JSON of two kinds.

Records of tuning (`tuning/record.py`), one for each candidate that was measured. The fastest for a kernel and target counts, if it was
clearly faster than the untuned kernel. And plans, which somebody decided; of several for a kernel and target the last one counts, and
records do not:

    {"version": "0.1.0", "kernel": "8f3c..", "name": "fused_nn_dense", "target": "llvm -mcpu=znver4", "plan": {"T_dense.tile": [6, 2]}}

`kernel` (`task` in records) is the digest of the primitive function, or the name of a problem of a program's plan (graph_plan.py), such
as "dense(1x512x1000, 32 bits)" with {"panel": 32}. A build finds the decisions in the file that the option `relay.plans` names; what is
not in it, the cost model decides.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.tuning import log
from tilewright.tuning.record import Record, best

FIELDS: dict[str, type] = {"version": str, "kernel": str, "name": str, "target": str, "plan": dict}
FASTER = 0.97
"""A record counts from this share of the untuned kernel's time on; less is noise."""


class PlanWarning(UserWarning):
    """A kept plan that cannot be used, or not in all of its decisions."""


class PlanDatabase:
    """The decisions of a file. Lines that are damaged or of another version are left out, each with a PlanWarning that says why.

    plans: by kernel and target. measured: the records among them, whose kernels are faster than untuned ones. Raises TVMError for a file
    that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.plans: dict[tuple[str, str], dict[str, Any]] = {}
        records: list[Record] = []
        for line in log.read(path):
            try:
                if line.record is None:
                    raise TVMError(line.why)
                if "task" in line.record:
                    records.append(Record.from_json(line.record))
                else:
                    plan = _plan(line.record)
                    self.plans[plan["kernel"], plan["target"]] = plan["plan"]
            except TVMError as error:
                warnings.warn(f"{self.path}:{line.number} is left out: {error}", PlanWarning, stacklevel=2)
        self.measured = {
            key: record for key, record in best(records).items() if _pays(record) and key not in self.plans
        }
        self.plans.update({key: record.candidate for key, record in self.measured.items()})

    def find(self, kernel: str, target: str) -> Mapping[str, Any]:
        """The decisions for a kernel (its digest) and a target; empty where there are none."""
        return self.plans.get((kernel, target), {})

    def record(self, kernel: str, target: str) -> Record | None:
        """The record whose decisions `find` returns; None where nothing was measured, or somebody decided otherwise."""
        return self.measured.get((kernel, target))

    def of_problems(self, target: str) -> dict[str, Any]:
        """What is decided for a target about problems of programs, by the names of decisions."""
        found = [(kernel, plan) for (kernel, t), plan in self.plans.items() if t == target and kernel.endswith(")")]
        return {f"{problem}.{what}": value for problem, plan in found for what, value in plan.items()}


def append_plan(path: str | os.PathLike[str], kernel: str, name: str, target: str, plan: Mapping[str, Any]) -> None:
    """Adds the plan of a kernel to a file, as `tuning.log.append` does."""
    log.append(path, [{"version": VERSION, "kernel": kernel, "name": name, "target": target, "plan": dict(plan)}])


def _pays(record: Record) -> bool:
    return isinstance(record.candidate, dict) and (record.untuned is None or record.median <= FASTER * record.untuned)


def _plan(found: dict[str, Any]) -> dict[str, Any]:
    """A line that is a plan. Raises TVMError with what is wrong in it."""
    for field, kind in FIELDS.items():
        if not isinstance(found.get(field), kind):
            raise TVMError(f"its field {field!r} is missing, or is no {kind.__name__}")
    if found["version"] != VERSION:
        raise TVMError(
            f"it was written by version {found['version']}, and this is {VERSION}: decisions may have other meanings"
        )
    return found


__all__ = ["PlanDatabase", "PlanWarning", "append_plan"]
