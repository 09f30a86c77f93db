"""`tilewright profile --static`: the analysis of a model's kernels for a GPU that this machine does not have."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.command import command, dense_model

TARGET = ("--static", "--target", "cuda -arch=sm_90a -model=h200")


@pytest.fixture(name="model", scope="module")
def _model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("static") / "dense.onnx"
    dense_model(path)
    return path


def test_table(model: Path) -> None:
    done = command("profile", model, *TARGET)
    assert done.code == 0, done.err
    assert "dense.onnx on h200 (sm_90a): at least " in done.out and "flop/B" in done.out
    assert "multiprocessors idle" in done.out


def test_facts(model: Path) -> None:
    facts = json.loads(command("profile", model, *TARGET, "--json").out)
    assert (facts["device"], facts["arch"], facts["refused"]) == ("h200", "sm_90a", {})
    work = [k for k in facts["kernels"] if "dense" in k["name"] or "matmul" in k["name"]]
    assert max([k["flops"] for k in work]) >= 2 * 4 * 32 * 8, "the dense layer multiplies 4 x 32 by 32 x 8"
    for kernel in facts["kernels"]:
        assert kernel["calls"] == 1 and kernel["seconds"] > 0 and 0 < kernel["occupancy"]["share"] <= 1
        assert kernel["launch"]["grid"] and kernel["accesses"] and kernel["complete"]
    assert facts["us"] == pytest.approx(1e6 * sum([k["seconds"] for k in facts["kernels"]]))


def test_rows(model: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(command("profile", model, *TARGET, "--csv").out)))
    assert rows and {"kernel", "us", "bound", "occupancy", "coalescing", "conflict_free", "l2_reuse", "advice"} <= set(
        rows[0]
    )


def test_what_cannot_be_analysed(model: Path) -> None:
    for target, given in (("opencl", ("--target", "opencl")), ("llvm", ())):
        done = command("profile", model, "--static", *given)
        assert done.code != 0 and "--static analyses kernels for GPUs of NVIDIA: give --target cuda, or" in done.err
        assert f", not '{target}'" in done.err.replace("\n", " ")
    dynamic = model.with_name("dynamic.onnx")
    dense_model(dynamic, "rows")
    done = command("profile", dynamic, *TARGET)
    assert done.code != 0 and "the virtual machine runs dynamic dimensions (--shape pins them)" in done.err
    assert command("profile", dynamic, *TARGET, "--shape", "x=4,32").code == 0
    library = model.with_suffix(".so")
    assert command("compile", model, "-o", library).code == 0
    done = command("profile", library, *TARGET)
    assert done.code != 0 and "--static takes a model file" in done.err
