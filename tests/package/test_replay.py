"""The benchmarks that time lowering and replay generated code, on one small model and program."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.compiler import lowering, random_kernels, replay

SMALL = ["--models", "", "--programs", "softmax", "--shapes", "2"]


def test_the_same_compiler_makes_the_same_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(["record", str(tmp_path), *SMALL]) == 0
    assert replay.main(["compare", str(tmp_path), *SMALL]) == 0
    out = capsys.readouterr().out
    assert "programs: 1 kernels, 0 differ, 0 gone, 0 new" in out
    assert "shapes: 2 kernels, 0 differ, 0 gone, 0 new" in out


def test_random_kernels_are_drawn_alike() -> None:
    """The same ones for a seed, however many there are; of all families."""
    names = [name for name, _ in random_kernels.programs(16, 3)]
    assert names[:8] == [name for name, _ in random_kernels.programs(8, 3)]
    assert len(set(names)) == 16 and names != [name for name, _ in random_kernels.programs(16, 4)]


def test_a_changed_kernel_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay.main(["record", str(tmp_path), *SMALL])
    path = tmp_path / "programs.json.gz"
    held = json.loads(gzip.decompress(path.read_bytes()))
    held["kernels"]["softmax"][1] = held["kernels"]["softmax"][1].replace("fmul", "fdiv", 1)
    path.write_bytes(gzip.compress(json.dumps(held).encode()))
    assert replay.main(["compare", str(tmp_path), *SMALL]) == 1
    out = capsys.readouterr().out
    assert "1 differ" in out and "fdiv" in out and "fmul" in out


def test_each_step_is_timed(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert lowering.main(["--programs", "naive_gemm", "--models", "", "--rounds", "1", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())
    assert set(row["ms"]) == set(lowering.PHASES)
    assert row["nodes"]["lower"] > 20 and row["nodes_per_s"] > 0 and "tir.Simplify" in row["passes_ms"]
