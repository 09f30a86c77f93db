"""Kernels that come from records of tuning are named: in the metadata of libraries, in `tilewright profile` and in reports of executors."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command
from tilewright import relay
from tilewright.contrib.debugger.debug_executor import GraphModuleDebug
from tilewright.ir import IRModule
from tilewright.relay.backend.tuning_tasks import tuning_tasks
from tilewright.runtime.profiler_vm import VirtualMachineProfiler
from tilewright.runtime.profiling import Ratio, Report
from tilewright.scheduling.database import append_plan
from tilewright.tuning import log
from tilewright.tuning.record import Record

DATA = np.ones((8, 64), np.float32)


@pytest.fixture(scope="module")
def model() -> IRModule:
    product = relay.nn.dense(relay.var("x", shape=(8, 64)), relay.const(np.ones((128, 64), "float32")))
    return IRModule.from_expr(relay.nn.softmax(product))


@pytest.fixture(scope="module")
def record(model: IRModule) -> Record:
    """A record of the product, in half the time of the untuned kernel."""
    with tvm.transform.PassContext(opt_level=3):
        task, *_ = [t for t in tuning_tasks(model, "llvm") if "dense" in t.name]
    return Record(task.key, task.name, task.target.text_for_all, task.space.draw(Random(0)), (1e-6,), untuned=2e-6)


def built(model: IRModule, records: Path, executor: str = "graph") -> Any:
    with tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(records)}):
        return relay.vm.compile(model, "llvm") if executor == "vm" else relay.build(model, "llvm", executor=executor)


@pytest.mark.parametrize("executor", ["aot", "vm"])
def test_profile(executor: str, model: IRModule, record: Record, tmp_path: Path) -> None:
    log.append(tmp_path / "r", [record.to_json()])
    built(model, tmp_path / "r", executor).export_library(tmp_path / "m.so")
    facts = json.loads(command("profile", tmp_path / "m.so", "--duration", "0.1", "--json").out)
    rows = {k["kernel"]: k for k in facts["kernels"]}
    tuned = rows[record.name]
    assert (tuned["record_us"], tuned["record_untuned_us"]) == (pytest.approx(1.0), pytest.approx(2.0))
    assert [n for n, row in rows.items() if row["record_us"] is not None] == [record.name]
    assert facts["tuned_share"] == pytest.approx(tuned["share"])
    shown = command("profile", tmp_path / "m.so", "--duration", "0.1").out
    assert "tuned: 1 of 2 kernels come from records; they are " in shown and "┃ tuned ┃" in shown
    (line,) = [text for text in shown.splitlines() if text.startswith(f"│ {record.name}")]
    assert line.endswith(" 0.50 │")


def test_builds_without_records_have_no_mark(model: IRModule, record: Record, tmp_path: Path) -> None:
    """Decisions of a person are none of a tuner's, nor is a record that is no faster."""
    log.append(tmp_path / "r", [Record(**{**vars(record), "untuned": 1e-6}).to_json()])
    assert not any(["record" in k for k in built(model, tmp_path / "r").metadata["kernels"]])
    append_plan(tmp_path / "r", record.task, record.name, record.target, record.candidate)
    log.append(tmp_path / "r", [record.to_json()])
    library = built(model, tmp_path / "r")
    assert not any(["record" in k for k in library.metadata["kernels"]])
    library.export_library(tmp_path / "m.so")
    assert "tuned" not in command("profile", tmp_path / "m.so", "--duration", "0.1").out


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_reports_of_executors(executor: str, model: IRModule, record: Record, tmp_path: Path) -> None:
    log.append(tmp_path / "r", [record.to_json()])
    library = built(model, tmp_path / "r", executor)
    report: Report
    if executor == "vm":
        report = VirtualMachineProfiler(library, tvm.cpu()).profile(DATA)
    else:
        made = library["debug_create"]("default", tvm.cpu())
        debug = GraphModuleDebug(made, [tvm.cpu()], library.get_graph_json(), str(tmp_path / "dump"))
        report = debug.profile(x=DATA)
    assert [(c["Name"], c["Tuned"]) for c in report.calls if "Tuned" in c] == [(record.name, Ratio(0.5))]
    (share,) = [c["Percent"] for c in report.calls if "Tuned" in c]
    again = Report.from_json(report.json())
    assert again.configuration["Percent in tuned kernels"] == share
    assert again.columns() == report.columns()
