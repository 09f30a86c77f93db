"""inspect: what a library says of itself, without being loaded; completion; forms of output; how much is said."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import command, dense_model, relu_model
from tilewright.support.linker import zig
from tilewright.support.version import VERSION


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dense.onnx, and dense.so of it."""
    place = tmp_path_factory.mktemp("inspect")
    dense_model(place / "dense.onnx")
    assert command("compile", place / "dense.onnx", "-o", place / "dense.so").code == 0
    return place


def test_library(folder: Path) -> None:
    found = json.loads(command("inspect", folder / "dense.so", "--json").out)
    assert found["inputs"] == [{"name": "x", "shape": [4, 32], "dtype": "float32"}]
    assert found["outputs"] == [{"name": "y", "shape": [4, 8], "dtype": "float32"}]
    assert (found["executor"], found["version"], found["opt_level"], found["kernels"]) == ("aot", VERSION, 3, 2)
    assert found["target"]["triple"] and found["target"]["features"]
    sizes = found["bytes"]
    assert sizes["file"] == (folder / "dense.so").stat().st_size
    # The weights, 32 x 64 and 64 x 8 float32.
    assert sizes["constants"] == (32 * 64 + 64 * 8) * 4 and 0 < sizes["code"] < sizes["file"]
    text = command("inspect", folder / "dense.so").out
    assert "runs by aot (one compiled entry)" in text and "4x32" in text and "constants 10.2 KB" in text


@pytest.mark.parametrize("suffix", ["o", "tar"])
def test_library_for_another_machine(folder: Path, suffix: str) -> None:
    library = folder / f"arm.{suffix}"
    target = "llvm -mtriple=aarch64-unknown-linux-gnu"
    assert command("compile", folder / "dense.onnx", "--target", target, "-o", library).code == 0
    found = json.loads(command("inspect", library, "--json").out)
    assert found["target"]["triple"].startswith("aarch64") and found["inputs"][0]["name"] == "x"
    assert found["bytes"]["constants"] == 10240 and found["bytes"]["code"] > 0


@pytest.mark.parametrize(
    "triple, suffix, system",
    [
        ("x86_64-pc-windows-msvc", "tar", "Windows"),
        ("i686-pc-windows-msvc", "tar", "Windows"),
        ("arm64-apple-darwin", "tar", "macOS"),
        ("arm64-apple-darwin", "dylib", "macOS"),
        ("x86_64-apple-darwin", "so", "macOS"),
        ("armv7-unknown-linux-gnueabihf", "tar", "arm"),
    ],
)
def test_library_for_another_system(folder: Path, triple: str, suffix: str, system: str) -> None:
    if suffix != "tar" and zig("cc") is None:
        pytest.skip("needs ziglang, which links for macOS")
    library = folder / f"{triple}.{suffix}"
    assert command("compile", folder / "dense.onnx", "--target", f"llvm -mtriple={triple}", "-o", library).code == 0
    found = json.loads(command("inspect", library, "--json").out)
    assert found["target"]["triple"] == triple and found["executor"] == "aot" and found["opt_level"] == 3
    assert (found["inputs"][0]["name"], found["outputs"][0]["shape"]) == ("x", [4, 8])
    # The weights, 32 x 64 and 64 x 8 float32.
    assert found["bytes"]["constants"] == 10240 and 100 < found["bytes"]["code"] < found["bytes"]["file"]
    done = command("run", library)
    assert done.code == 1 and done.err.startswith(f"error: {library} was made for {system}, but this machine is ")
    data = library.read_bytes()
    for size in range(4, len(data), len(data) // 50):
        library.write_bytes(data[:size])
        assert command("inspect", library).code in (0, 1)


def test_dynamic_dimensions_have_names(tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", ["batch", 3])
    assert command("compile", model, "-q", "-o", tmp_path / "m.so").code == 0
    found = json.loads(command("inspect", tmp_path / "m.so", "--json").out)
    assert found["executor"] == "vm" and found["inputs"][0]["shape"] == ["batch", 3] == found["outputs"][0]["shape"]
    assert command("inspect", tmp_path / "m.so", "--csv").out == (
        "kind,name,dtype,shape\ninput,x,float32,batchx3\noutput,y,float32,batchx3\n"
    )


def test_a_library_of_functions(tmp_path: Path) -> None:
    import tilewright as tvm
    from tilewright import te

    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1, name="y")
    tvm.build(te.create_prim_func([x, y]), target="llvm", name="add_one").export_library(str(tmp_path / "f.so"))
    found = json.loads(command("inspect", tmp_path / "f.so", "--json").out)
    assert found["executor"] is None and "add_one" in found["functions"] and found["target"]["triple"]
    assert "functions, no model: " in command("inspect", tmp_path / "f.so").out


def test_what_cannot_be_inspected(folder: Path, tmp_path: Path) -> None:
    done = command("inspect", folder / "dense.onnx")
    assert done.code == 1 and done.err == (
        f"error: {folder / 'dense.onnx'} is not a compiled library (.so, .dylib, .wasm, .tar, .o, .a, .lib); for a model"
        " file use: tilewright"
        f" import {folder / 'dense.onnx'} --check\n"
    )
    other = tmp_path / "other.so"
    other.write_bytes(b"not a library")
    done = command("inspect", other)
    assert done.code == 1 and done.err == (
        f"error: {other} cannot be inspected: it does not begin with the header of an object file or a library; copy or compile it again\n"
    )
    data = (folder / "dense.so").read_bytes()
    for size in range(4, len(data), 997):
        other.write_bytes(data[:size])
        assert command("inspect", other).code in (0, 1)


@pytest.mark.parametrize(
    "shell, mark", [("bash", "complete -o nosort"), ("zsh", "#compdef tilewright"), ("fish", "complete ")]
)
def test_completion(shell: str, mark: str) -> None:
    done = command("completion", shell)
    assert done.code == 0 and mark in done.out and "_TILEWRIGHT_COMPLETE" in done.out and not done.err


def test_completion_completes() -> None:
    import os
    import sys

    words = {"COMP_WORDS": "tilewright comp", "COMP_CWORD": "1", "_TILEWRIGHT_COMPLETE": "bash_complete"}
    program = [sys.executable, "-c", "from tilewright.cli import main; main()"]
    done = subprocess.run(program, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert {line.split(",")[-1] for line in done.stdout.split()} == {"compare", "compile", "completion"}


FORMS = [
    ("compile", ["dense.onnx", "-o", "again.so"], {"model", "library", "executor", "bytes", "compile_seconds"}),
    ("run", ["dense.so"], {"output", "shape", "dtype", "min", "mean", "max"}),
    ("bench", ["dense.so", "--iterations", "6"], {"contestant", "median", "p99", "runs", "runs_per_second"}),
    ("profile", ["dense.so", "--duration", "0.1"], {"kernel", "calls", "us", "share", "gflops"}),
    ("memory", ["dense.onnx"], {"part", "bytes"}),
    ("compare", ["dense.onnx"], {"kind", "name", "error", "lost_values"}),
    ("import", ["dense.onnx"], {"operator", "count", "supported"}),
    ("inspect", ["dense.so"], {"kind", "name", "dtype", "shape"}),
    ("cache", ["info"], {"path", "entries", "bytes", "most_bytes"}),
]


@pytest.mark.parametrize("verb, words, columns", FORMS, ids=[f[0] for f in FORMS])
def test_forms_of_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str, words: list[str], columns: set[str]
) -> None:
    monkeypatch.chdir(folder)
    done = command(verb, *words, "--json")
    assert done.code == 0 and isinstance(json.loads(done.out), dict), done.err
    done = command(verb, *words, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert done.code == 0 and rows and columns <= set(rows[0]), (done.out, done.err)
    done = command(verb, *words, "--json", "--csv")
    assert done.code == 2 and "--json and --csv exclude each other; give one" in done.err


def test_how_much_is_said(folder: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", ["n", 3])
    loud = command("compile", model, "-o", tmp_path / "m.so", "-v")
    assert loud.code == 0 and "note: " in loud.err and "imported in " in loud.err and "runs by vm" in loud.err
    assert command("compile", model, "-o", tmp_path / "m.so", "-q").err == ""
    done = command("compile", model, "-o", tmp_path / "m.so", "-q", "-v")
    assert done.code == 2 and "--verbose and --quiet exclude each other; give one" in done.err


@pytest.mark.parametrize(
    "verb", ["compile", "run", "bench", "profile", "memory", "compare", "import", "inspect", "cache", "completion"]
)
def test_every_command_has_an_example(verb: str) -> None:
    done = command(verb, "--help")
    assert done.code == 0 and f"\n  tilewright {verb} " in done.out


def test_damage_is_found_before_a_library_is_described(folder: Path, tmp_path: Path) -> None:
    for name, library in (("m.so", folder / "dense.so"), ("m.tar", tmp_path / "whole.tar")):
        if not library.exists():
            assert command("compile", folder / "dense.onnx", "-q", "-o", library).code == 0
        data = bytearray(library.read_bytes())
        data[len(data) // 2] ^= 1
        (tmp_path / name).write_bytes(data)
        done = command("inspect", tmp_path / name)
        assert done.code == 1 and done.err == (
            f"error: {tmp_path / name} is damaged: its checksum does not agree; copy or compile it again\n"
        )


PACKED = "it is cut off or damaged, or no file of its kind"


@pytest.mark.parametrize(
    "content, text",
    [(b"", PACKED), (b"hello" * 1000, PACKED), (gzip.compress(b"hello")[:-6], "it ends too early")],
    ids=["empty", "text", "cut off"],
)
def test_an_archive_that_is_none(tmp_path: Path, content: bytes, text: str) -> None:
    library = tmp_path / "m.tar"
    library.write_bytes(content)
    done = command("inspect", library)
    assert done.code == 1 and done.err == (f"error: {library} cannot be inspected: {text}; copy or compile it again\n")
    done = command("run", library)
    assert done.code == 1 and done.err == (f"error: {library} is not an archive of objects: {text}\n")


@pytest.mark.parametrize("words", ["inspect", "run"])
def test_what_is_no_file(tmp_path: Path, words: str) -> None:
    """A device has no end, and a pipe is waited for."""
    os.mkfifo(tmp_path / "pipe.so")
    for place in (tmp_path / "pipe.so", tmp_path / "zero.so"):
        if not place.exists():
            place.symlink_to("/dev/zero")
        done = command(words, place)
        assert done.code == 1 and done.err == f"error: {place} is no file, so it is no library\n"


@pytest.mark.parametrize(
    "words, text",
    [
        (("bench", "--duration", "nan"), "'nan' is not a finite number"),
        (("bench", "--duration", "inf"), "'inf' is not a finite number"),
        (("compare", "--tolerance", "nan"), "'nan' is not a finite number"),
        (("run", "--seed", "-1"), "-1 is not in the range x>=0"),
    ],
)
def test_wrong_numbers(folder: Path, words: tuple[str, ...], text: str) -> None:
    done = command(words[0], folder / "dense.onnx", *words[1:])
    assert done.code == 2 and text in done.err, done.err
