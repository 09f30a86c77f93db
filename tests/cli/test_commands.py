"""compile, run, bench, profile and cache on small models; progress; help."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import onnxruntime
import pytest

from tests.cli.command import command, dense_model, relu_model
from tilewright.cli import screen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dense.onnx and dense.so."""
    place = tmp_path_factory.mktemp("cli")
    dense_model(place / "dense.onnx")
    done = command("compile", place / "dense.onnx", "-o", place / "dense.so")
    assert done.code == 0, done.err
    assert done.out.startswith(f"{place / 'dense.so'}: ") and "import " in done.out and "link " in done.out
    return place


def test_run_equals_onnxruntime(folder: Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 32)).astype("float32")
    np.savez(folder / "in.npz", x=x)
    done = command("run", folder / "dense.so", "-i", folder / "in.npz", "-o", folder / "out.npz", "--threads", "1")
    assert done.code == 0 and "4x8" in done.out, done.err
    expected = onnxruntime.InferenceSession(str(folder / "dense.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.load(folder / "out.npz")["y"], expected, rtol=1e-4, atol=1e-4)


def test_library_of_a_graph(folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.random.default_rng(1).standard_normal((4, 32)).astype("float32"))
    done = command("compile", folder / "dense.onnx", "--executor", "graph", "-o", folder / "graph.so")
    assert done.code == 0, done.err
    for name in ("dense", "graph"):
        assert (
            command("run", folder / f"{name}.so", "-i", folder / "in.npz", "-o", folder / f"{name}.out.npz").code == 0
        )
    np.testing.assert_array_equal(np.load(folder / "dense.out.npz")["y"], np.load(folder / "graph.out.npz")["y"])
    done = command("profile", folder / "graph.so", "--seconds", "0.1")
    assert done.code == 0 and "dense" in done.out, done.err


def test_run_takes_npy_of_any_order(folder: Path) -> None:
    x = np.asfortranarray(np.random.default_rng(2).standard_normal((4, 32)).astype("float32"))
    np.save(folder / "x.npy", x)
    np.savez(folder / "same.npz", x=x)
    for name in ("x.npy", "same.npz"):
        assert command("run", folder / "dense.so", "-i", folder / name, "-o", folder / f"{name}.out.npz").code == 0
    np.testing.assert_array_equal(np.load(folder / "x.npy.out.npz")["y"], np.load(folder / "same.npz.out.npz")["y"])


def test_same_seed_same_output(folder: Path) -> None:
    outputs = [command("run", folder / "dense.so", "--seed", seed).out for seed in ("3", "3", "4")]
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize("suffix", ["tar", "o"])
def test_unlinked_libraries_run(folder: Path, suffix: str) -> None:
    assert command("compile", folder / "dense.onnx", "-o", folder / f"dense.{suffix}").code == 0
    assert command("run", folder / f"dense.{suffix}").out == command("run", folder / "dense.so").out


def test_bench(folder: Path) -> None:
    done = command("bench", folder / "dense.onnx", "--seconds", "0.1", "--threads", "1")
    assert done.code == 0, done.err
    assert "Tilewright" in done.out and "ONNX Runtime" in done.out and "ratio to ONNX Runtime " in done.out
    done = command("bench", folder / "dense.so", "--seconds", "0.1")
    assert done.code == 0 and "ONNX Runtime" not in done.out and "load " in done.out


def test_profile(folder: Path) -> None:
    done = command("profile", folder / "dense.so", "--seconds", "0.1", "--threads", "1")
    assert done.code == 0, done.err
    heads = ["kernel", "calls", "us", "share", "GFLOP/s", "GB/s", "% of peak"]
    assert [part.strip() for part in done.out.splitlines()[2].strip("┃").split("┃")] == heads
    assert "peaks of multiply-adds in GFLOP/s, measured now: float32 " in done.out
    short = command("profile", folder / "dense.onnx", "--seconds", "0.1", "--top", "1").out
    assert " more)" in short


def test_cache(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert command("cache", "info").out == f"{tmp_path}: 0 entries, 0 B of at most 2.1 GB\n"
    assert command("compile", folder / "dense.onnx", "-o", folder / "dense.so").code == 0
    count = len([p for p in tmp_path.rglob("*") if p.is_file()])
    assert count and command("cache", "info").out.startswith(f"{tmp_path}: {count} entries, ")
    assert command("cache", "clear").out == f"removed {count} entries\n"


def test_shape_option(tmp_path: Path) -> None:
    model = relu_model(tmp_path / "open.onnx", ["n", 3])
    assert command("compile", model, "--shape", "x=5,3", "-o", tmp_path / "five.so").code == 0
    assert "5x3" in command("run", tmp_path / "five.so").out


def test_another_cpu_of_the_same_kind(folder: Path) -> None:
    done = command("compile", folder / "dense.onnx", "--target", "llvm -mcpu=x86-64-v3", "-o", folder / "v3.so")
    assert done.code == 0, done.err


def test_targets() -> None:
    assert "raspberry-pi/5" in command("targets", "raspberry").out
    assert command("targets", "CORTEX-A76", "broadcom").err.startswith(
        "error: no machine of the list has CORTEX-A76 broadcom"
    )
    assert "no machine of the list is of the kind cpu. Kinds: cuda, " in command("targets", "--kind", "cpu").err
    machines = json.loads(command("targets", "--kind", "cuda", "a100", "--json").out)["machines"]
    assert [(m["name"], m["processor"]) for m in machines] == [("nvidia/nvidia-a100", "sm_80")]


def test_devices() -> None:
    found = json.loads(command("devices", "cpu", "--json").out)
    assert [d["device"] for d in found["devices"]] == ["cpu(0)"] and not found["missing"]
    lines = command("devices", "cpu", "hexagon").out.splitlines()
    assert lines[0].split()[:2] == ["device", "name"] and lines[1].startswith("cpu(0) ")
    assert lines[2].startswith("hexagon: device type hexagon has no runtime in this process")
    assert "unknown device type `gpu`; known are: " in command("devices", "gpu").err


@pytest.mark.parametrize("name", ["compile", "run", "bench", "profile", "cache", "targets", "devices"])
def test_help(name: str) -> None:
    done = command(name, "--help")
    assert done.code == 0 and done.out.startswith(f"Usage: tilewright {name} ") and not done.err


def test_help_is_quick_and_the_version_is_shown() -> None:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "import tilewright.cli as c; c.main()", "--version"], capture_output=True, text=True
    )
    assert done.stdout.endswith("version 0.1.0\n")
    # Slack for a busy machine; it takes 0.1 s.
    assert time.perf_counter() - start < 5
    code = "import sys, tilewright.cli.commands; print({'numpy', 'llvmlite', 'onnx', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_progress_in_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(screen, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(screen, "console", screen.Console(stderr=True))
    with screen.progress("compiling kernels") as report:
        report(0, 4, "importing")
        report(1, 4, "kernel")
    assert capsys.readouterr().err == "compiling kernels: 1 of 4, about 0 s left\n"


def test_time_left_is_that_of_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty seconds of importing in front of kernels that take one each."""
    monkeypatch.setattr(screen, "console", screen.Console(stderr=True))
    report = screen.line_report("compiling kernels")
    begun = time.monotonic()
    for second, done, total in ((10, 0, 0), (20, 0, 28), (21, 1, 28)):
        with mock.patch.object(screen.time, "monotonic", lambda second=second: begun + second):
            report(done, total, "")
    assert capsys.readouterr().err == "compiling kernels: 1 of 28, about 27 s left\n"
    # A second count, such as that of the runtime with threads, is not measured from the beginning of the first.
    for second, done, total in ((90, 28, 28), (100, 1, 28), (102, 2, 28)):
        with mock.patch.object(screen.time, "monotonic", lambda second=second: begun + second):
            report(done, total, "")
    assert capsys.readouterr().err == "compiling kernels: 2 of 28, about 52 s left\n"


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    terminal = io.StringIO()
    monkeypatch.setattr(screen, "console", screen.Console(file=terminal, force_terminal=True, width=100))
    with screen.progress("compiling kernels") as report:
        report(3, 12, "fused_add")
        time.sleep(0.15)
    assert "fused_add" in terminal.getvalue() and "3/12" in terminal.getvalue()


def test_compile_writes_a_report(folder: Path) -> None:
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so", "--report", folder / "passes.html")
    assert done.code == 0, done.err
    text = (folder / "passes.html").read_text()
    assert "<h1>dense.onnx</h1>" in text
    assert 'data-name="FuseOps"' in text and 'data-name="tir.VectorizeLoop"' in text
    bad = command("compile", folder / "dense.onnx", "-o", folder / "again.so", "--report", folder / "no" / "r.html")
    assert bad.code == 1 and "--report" in bad.err


def test_memory(folder: Path) -> None:
    done = command("memory", folder / "dense.onnx")
    assert done.code == 0, done.err
    assert "activations (arena)" in done.out and "constants" in done.out


def test_the_package_is_the_command_too() -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: tilewright [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (999_949, "999.9 KB"),
        (999_960, "1.0 MB"),
        (102_450_000, "102.5 MB"),
        (2**31, "2.1 GB"),
    ],
)
def test_sizes_of_memory(count: int, text: str) -> None:
    assert screen.in_bytes(count) == text
