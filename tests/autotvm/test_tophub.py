"""Packages of records: none by default, those of a folder where one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.autotvm.templates import result, task
from tilewright import autotvm
from tilewright.autotvm import tophub
from tilewright.autotvm.measure.measure import MeasureInput
from tilewright.support.errors import TVMError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for packages; packages are kept in another one."""
    monkeypatch.setattr(tophub, "AUTOTVM_TOPHUB_ROOT_PATH", tmp_path / "kept")
    monkeypatch.setattr(tophub, "REFERENCE_LOG_CACHE", {})
    monkeypatch.delenv(tophub.AUTOTVM_TOPHUB_LOC_VAR, raising=False)
    found = tmp_path / "packages"
    found.mkdir()
    return found


def fill(path: Path, index: int) -> None:
    tuned = task()
    autotvm.record.write(path, [(MeasureInput(tuned.target, tuned, tuned.config_space.get(index)), result(1.0))])


def test_by_default_there_are_no_records(folder: Path) -> None:
    with tophub.context("llvm") as best:
        assert not best.best_by_targetkey
    assert tophub.load_reference_log("llvm", "unknown", "test/matmul") == []
    fill(folder / "mine.log", 3)
    with tophub.context("llvm", extra_files=[folder / "mine.log"]) as best:
        assert best.query(task().target, task().workload).index == 3


def test_packages_of_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tophub.AUTOTVM_TOPHUB_LOC_VAR, str(folder))
    assert not tophub.context("llvm").best_by_targetkey
    fill(folder / "llvm_v0.04.log", 5)
    with tophub.context(["llvm -device=arm_cpu", "llvm"]) as best:
        assert best.query(task().target, task().workload).index == 5
    assert (tophub.AUTOTVM_TOPHUB_ROOT_PATH / "llvm_v0.04.log").is_file()
    assert [p[0].config.index for p in tophub.load_reference_log("llvm", "any", "test/matmul")] == [5]
    assert tophub.load_reference_log("llvm", "any", "other") == []


def test_messages(folder: Path) -> None:
    with pytest.raises(TVMError, match="TOPHUB_LOCATION names a folder with packages, since nothing is downloaded"):
        tophub.download_package("https://example.com/tophub", "llvm_v0.04.log")
    with pytest.raises(TVMError, match="there is no package of records for 'cuda'; there are arm_cpu, llvm"):
        tophub.check_backend(str(folder), "cuda")
    assert not tophub.check_backend(str(folder), "llvm")
