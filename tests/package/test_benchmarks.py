"""Every benchmark can be started as `python -m benchmarks NAME [ARGS...]`, tells its options, and refuses what is none."""

from __future__ import annotations

import importlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks import peers
from benchmarks.catalogue import BENCHMARKS, source
from benchmarks.runtime import executor_overhead
from benchmarks.trained_models import packages

NAMES = sorted(BENCHMARKS)
THREADED = [n for n in NAMES if '"--threads"' in source(BENCHMARKS[n])]


def refusal(name: str, *options: str) -> int:
    """The exit status with options that end a benchmark before it begins; its own, not those of this process."""
    main = importlib.import_module(BENCHMARKS[name]).main
    with mock.patch("sys.argv", ["pytest", "--what-is-not-meant-for-it"]), pytest.raises(SystemExit) as stopped:
        main(list(options))
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("name", NAMES)
def test_options_are_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks {name} ")
    assert refusal(name, "--no-such-option") == 2


@pytest.mark.parametrize("count", ["0", "-1", "1000000000", "abc", ""])
@pytest.mark.parametrize("name", THREADED)
def test_numbers_of_threads_that_are_none(name: str, count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(name, f"--threads={count}") == 2
    text = capsys.readouterr().err
    assert (f"--threads takes positive numbers with commas between, such as 1,2, but was given {count!r}" in text) or (
        count == "1000000000" and "1000000000 threads were asked for, but this process may use" in text
    )


@pytest.mark.parametrize("name", [n for n in NAMES if n != "worker"])
def test_results_go_to_a_file_in_a_folder_that_there_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    needed = {"replay": ["record", "unused"], "overheads": ["unused"]}.get(name, [])
    assert refusal(name, *needed, "--json=no/such/folder/results.json") == 2
    assert "argument --json: no/such/folder is not a folder" in capsys.readouterr().err


def test_results_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert executor_overhead.main(["--calls", "10", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert found["calls"] == 10 and [e["executor"] for e in found["executors"]] == [
        "kernels alone",
        "graph",
        "aot",
        "vm",
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lowering", ["--programs=nosuch"]),
        ("replay", ["record", "unused", "--programs=nosuch"]),
        ("vector_math", ["--functions=nosuch"]),
        ("operators", ["--cases=nosuch"]),
        ("random_shapes", ["--families=nosuch"]),
    ],
)
def test_names_that_are_not_known(name: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(name, *options) == 2
    assert "nosuch" in capsys.readouterr().err.splitlines()[-1]


def test_contestants_that_are_not_installed_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch("importlib.util.find_spec", lambda name: None if name == "openvino" else name):
        assert peers.installed(["tilewright", "openvino", "onnxruntime"]) == ["tilewright", "onnxruntime"]
    assert (
        capsys.readouterr().err
        == "left out: openvino needs the Python package openvino: pip install 'tilewright[bench]'\n"
    )


def test_a_run_that_rounds_less_judges(tmp_path: Path) -> None:
    """Float64 in all of a model, constants and casts too; a runtime that is far from it makes no answer right."""
    import numpy as np
    from onnx import parser

    from benchmarks.trained_models.exact import exact_run
    from benchmarks.trained_models.real_models import ROUGHEST, TOLERANCE, no_farther

    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[n] x) => (float[n] y) {
        big = Constant <value_float = 16777216.0> () one = Constant <value = float {1}> () w = Cast <to = 1> (one)
        a = Add (x, big) b = Add (a, w) y = Sub (b, big)
    }"""
    path = tmp_path / "sum.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    run = exact_run(path)
    assert run is not None
    np.testing.assert_array_equal(run({"x": np.float32([0.25, 3])})[0], np.float32([1.25, 4]), strict=True)
    assert exact_run(tmp_path / "model.h5") is None
    assert no_farther(0.02, 0.01) and no_farther(TOLERANCE, 0) and not no_farther(0.03, 0.01)
    assert not no_farther(0, 2 * ROUGHEST)


def test_models_of_a_wheel_that_was_unpacked_in_part_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another run's models had been taken for all of them."""
    downloads: list[list[str]] = []

    def download(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        downloads.append(command)
        with zipfile.ZipFile(tmp_path / "some_models-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("a.onnx", "a")
            archive.writestr("b/saved_model.pb", "b")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download)
    a, b = (packages.RealModel("some-models", "1.0", file, []) for file in ("a.onnx", "b"))
    for models, count in (([a], 1), ([a, b], 2), ([b], 2)):
        assert packages.fetch(models, tmp_path) == {} and len(downloads) == count
        assert all([m.path(tmp_path).exists() for m in models])
