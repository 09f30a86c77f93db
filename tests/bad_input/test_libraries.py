"""Libraries, inputs, caches and disks that are not what they should be."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command, relu_model
from tilewright import relay, te
from tilewright.cli.tensors import converted
from tilewright.contrib import graph_executor
from tilewright.runtime.packed_func import global_func
from tilewright.support import cache, linker
from tilewright.support.errors import DAMAGED, TVMError
from tilewright.target import host_cpu


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with relu.so (x: 2x3)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.default_cache(), "_warned", set())
    relu_model(Path("relu.onnx"), [2, 3])
    assert command("compile", "relu.onnx", "-o", "relu.so").code == 0


def refused(*args: str | Path) -> str:
    """The message of a command that must fail."""
    done = command(*args)
    assert done.code == 1, (done.code, done.out, done.err)
    return done.err


# --- libraries


def test_model_instead_of_a_library() -> None:
    assert refused("compare", "relu.onnx", "--reference", "interp", "--library", "relu.onnx") == (
        "error: relu.onnx is not a compiled library (.so, .dylib, .wasm, .tar, .o, .a, .lib); make one with: tilewright"
        " compile relu.onnx -o model.so\n"
    )


def test_no_library() -> None:
    Path("empty.so").write_bytes(b"")
    assert (
        refused("run", "empty.so") == "error: empty.so is not a library: its 0 bytes do not begin with an ELF header\n"
    )
    Path("random.so").write_bytes(np.random.default_rng(0).bytes(5000))
    assert refused("run", "random.so") == (
        "error: random.so is not a library: its 5000 bytes do not begin with an ELF header\n"
    )


def test_library_cut_off() -> None:
    data = Path("relu.so").read_bytes()
    for percent in (20, 50, 80):
        size = len(data) * percent // 100
        Path("cut.so").write_bytes(data[:size])
        text = refused("run", "cut.so")
        assert text.startswith(f"error: cut.so is cut off: it has {size} bytes of at least ")
        assert text.endswith("; copy or compile it again\n")


def test_library_without_a_model() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="y")])
    tvm.build(func, target="llvm").export_library("function.so")
    assert refused("run", "function.so") == (
        "error: the library holds functions, but no model; use a library that `tilewright compile` wrote\n"
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86 machines")
def test_library_for_another_machine() -> None:
    assert (
        command("compile", "relu.onnx", "--target", "llvm -mtriple=aarch64-unknown-linux-gnu", "-o", "arm.so").code == 0
    )
    assert refused("run", "arm.so") == (
        "error: arm.so was made for aarch64, but this machine is x86_64; compile it again for this machine\n"
    )
    assert refused("bench", "relu.onnx", "--target", "llvm -mtriple=aarch64-unknown-linux-gnu") == (
        "error: this model was compiled for llvm -keys=cpu -mtriple=aarch64-unknown-linux-gnu, which is not this machine, so it"
        ' cannot run here; write it with export_library("model.so") and run it there\n'
    )


@pytest.mark.skipif(
    host_cpu().arch != "x86" or "amx-fp16" in host_cpu().features, reason="this machine has all that is asked for"
)
def test_library_for_a_larger_cpu() -> None:
    assert command("compile", "relu.onnx", "--target", "llvm -mattr=+amx-fp16,+amx-tile", "-o", "amx.so").code == 0
    missing = ", ".join(sorted({"amx-fp16", "amx-tile"} - host_cpu().features))
    assert refused("run", "amx.so") == (
        f"error: this library was compiled for CPU `generic`, but this machine lacks the features: {missing}; compile"
        " the model again for this machine, or for a target without them\n"
    )


def test_shape_with_a_library() -> None:
    assert refused("bench", "relu.so", "--shape", "x=1,3") == (
        "error: relu.so is a compiled library, so its shapes are fixed; --shape needs a model file\n"
    )


# --- inputs and outputs

INPUTS = [
    ({"z": np.zeros((2, 3), "float32")}, "the model has no input 'z'; its inputs are: x float32 2x3"),
    ({"x": np.zeros((2, 4), "float32")}, "input x float32 2x4 does not fit the model, which takes x float32 2x3"),
    (
        {"x": np.zeros((2, 3), "float64")},
        "input x float64 2x3 does not fit the model, which takes x float32 2x3; --cast converts the type",
    ),
    (
        {"x": np.array([{}], dtype=object)},
        "in.npz cannot be read as an .npz or .npy file: it holds Python objects (pickles), which are not loaded from files",
    ),
    (
        {"x": np.zeros((2, 3), "complex64")},
        "input x complex64 2x3 does not fit the model, which takes x float32 2x3",
    ),
]


@pytest.mark.parametrize(("arrays", "text"), INPUTS)
def test_inputs(arrays: dict[str, np.ndarray], text: str) -> None:
    np.savez("in.npz", **arrays)
    assert refused("run", "relu.so", "-i", "in.npz") == f"error: {text}\n"


CASTS = [
    (np.full((2, 3), 1e300), "input x: --cast does not convert it, since float32 does not hold all its numbers"),
    (
        np.zeros((2, 3), "complex64"),
        "input x complex64 2x3 does not fit the model, which takes x float32 2x3",
    ),
]


@pytest.mark.parametrize(("value", "text"), CASTS)
def test_casts_that_would_lose_numbers(value: np.ndarray, text: str) -> None:
    np.savez("in.npz", x=value)
    assert refused("run", "relu.so", "-i", "in.npz", "--cast") == f"error: {text}\n"


@pytest.mark.parametrize(("value", "wanted"), [([1.5, np.nan], "int64"), ([2**40], "int32"), ([-1], "uint8")])
def test_integers_that_casts_do_not_hold(value: list[float], wanted: str) -> None:
    with pytest.raises(TVMError, match=f"--cast does not convert it, since {wanted} does not hold all its numbers"):
        converted("i", np.array(value), np.dtype(wanted))


def test_input_that_is_no_archive() -> None:
    Path("in.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    assert refused("run", "relu.so", "-i", "in.npz") == (
        "error: in.npz cannot be read as an .npz or .npy file: it is cut off or damaged, or no file of its kind\n"
    )
    assert refused("run", "relu.so", "-i", "relu.onnx") == (
        "error: relu.onnx is not an .npz or .npy file; numpy.savez('relu.npz', name=array) writes one\n"
    )


@pytest.mark.parametrize("option", [("-i", "in.npy"), ("--value", "x=in.npy")])
def test_inputs_that_are_no_arrays(option: tuple[str, str]) -> None:
    """A pipe is not waited for, and what is no array is not told in NumPy's words."""
    os.mkfifo("in.npy")
    assert (
        refused("run", "relu.onnx", *option)
        == "error: in.npy is no file; numpy.savez('in.npz', name=array) writes one\n"
    )
    os.remove("in.npy")
    for content, text in (
        (b"\x80\x04junk", "is not an .npz or .npy file; numpy.savez('in.npz', name=array) writes one"),
        (b"\x93NUMPY\x01\x00", f"cannot be read as an .npz or .npy file: {DAMAGED}\n"),
        (b"\x93NUMPY\x01\x00\x10\x00{junk           \n", f"cannot be read as an .npz or .npy file: {DAMAGED}\n"),
    ):
        Path("in.npy").write_bytes(content)
        assert refused("run", "relu.onnx", *option).startswith(f"error: in.npy {text}")


def test_output_that_cannot_be_written() -> None:
    assert refused("run", "relu.so", "-o", "no/out.npz") == (
        "error: --output no/out.npz: the folder no does not exist; create it first\n"
    )
    if os.path.exists("/dev/full"):
        assert refused("run", "relu.so", "--quiet", "-o", "/dev/full") == (
            "error: /dev/full cannot be written: No space left on device\n"
        )


def with_full_disk(*args: str) -> subprocess.CompletedProcess[str]:
    """A command in a process whose files cannot grow past a few bytes, as on a disk that is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    command = [sys.executable, "-c", "from tilewright.cli import main; main()", *args]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TILEWRIGHT_CACHE_DIR": str(Path("other").absolute())}
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=environment)


def test_full_disk_keeps_the_file_that_was_there() -> None:
    np.savez("out.npz", y=np.arange(3))
    before = Path("out.npz").read_bytes(), sorted(os.listdir())
    done = with_full_disk("run", "relu.so", "--quiet", "-o", "out.npz")
    assert done.returncode == 1 and done.stderr == "error: out.npz cannot be written: File too large\n"
    assert (Path("out.npz").read_bytes(), sorted(os.listdir())) == before


def test_no_linker_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "cross_linker", lambda: None)
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    for name in ("other.so", "other.o"):
        assert refused("compile", "relu.onnx", "-o", name, "--target", f"llvm -mtriple={other}-linux-gnu") == (
            f"error: writing {name} needs a linker for other processors, and this machine has none: install one (lld), or"
            " `pip install 'tilewright[cross]'`; a .tar of objects can be written without\n"
        )


@pytest.mark.parametrize(
    "command",
    [
        ("compile", "relu.onnx", "-o", "relu.ll"),
        ("import", "relu.onnx", "-o", "relu.relay"),
        ("import", "relu.onnx", "-o", "relu.json"),
    ],
)
def test_full_disk_names_the_file_and_keeps_what_was_there(command: tuple[str, ...]) -> None:
    path = Path(command[-1])
    path.write_text("before")
    before = sorted(os.listdir())
    done = with_full_disk(*command)
    assert done.returncode == 1 and done.stderr.endswith(f"error: {path} cannot be written: File too large\n")
    assert path.read_text() == "before" and {*os.listdir()} <= {*before, "other"}


def test_full_disk_when_compiling_keeps_the_report_that_was_there() -> None:
    Path("relu.html").write_text("before")
    done = with_full_disk("compile", "relu.onnx", "-o", "made.so", "--report", "relu.html")
    assert done.returncode == 1 and "error: temporary files cannot be written in " in done.stderr
    assert Path("relu.html").read_text() == "before" and not Path("made.so").exists()


def test_full_disk_when_compiling_keeps_the_library_that_was_there() -> None:
    before = Path("relu.so").read_bytes()
    done = with_full_disk("compile", "relu.onnx", "-o", "relu.so")
    assert done.returncode == 1
    # On a busy machine a line of progress may come first.
    warning, error = [line for line in done.stderr.splitlines() if line.startswith(("warning", "error"))]
    assert warning == (
        f"warning: nothing can be kept in the compile cache {Path('other').absolute()} (File too large); compiling goes on without"
        " it. Free some space, or set TILEWRIGHT_CACHE_DIR to another directory"
    )
    # The objects that are linked are temporary files, which come first.
    assert error.startswith(f"error: temporary files cannot be written in {tempfile.gettempdir()}/tilewright-")
    assert error.endswith(": File too large; free some space there, or set TMPDIR to another directory")
    assert Path("relu.so").read_bytes() == before
    assert not [p for p in os.listdir() if p not in ("relu.so", "relu.onnx", "cache", "other")]


# --- the compile cache


def test_damaged_entry() -> None:
    entries = [p.absolute() for p in Path("cache").rglob("*") if p.is_file()]
    for entry in entries:
        entry.write_bytes(b"damage")
    done = command("compile", "relu.onnx", "-o", "again.so")
    assert done.code == 0 and sorted(done.err.splitlines()) == sorted(
        [f"warning: the entry {e} of the compile cache is damaged; it is removed and compiled anew" for e in entries]
    )
    assert command("run", "again.so").out == command("run", "relu.so").out
    assert command("compile", "relu.onnx", "-o", "again.so").err == ""


def test_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path("relu.onnx").absolute() / "cache"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(place))
    done = command("compile", "relu.onnx", "-o", "again.so")
    assert done.code == 0 and done.err.splitlines()[-1] == (
        f"warning: nothing can be kept in the compile cache {place} (Not a directory); compiling goes on without it."
        " Free some space, or set TILEWRIGHT_CACHE_DIR to another directory"
    )
    assert command("cache", "info").out == f"{place}: 0 entries, 0 B of at most 2.1 GB\n"


# --- the same through Python


@pytest.fixture
def executor() -> graph_executor.GraphModule:
    mod, params = relay.frontend.from_onnx("relu.onnx")
    return graph_executor.GraphModule(relay.build(mod, target="llvm", params=params)["default"](tvm.cpu()))


CALLS = [
    ("z", np.zeros((2, 3), "float32"), "the model has no input named `z`; its inputs are: `x`"),
    ("x", np.zeros((3, 2), "float32"), "input `x` must have shape (2, 3), got (3, 2)"),
    (
        "x",
        tvm.nd.array(np.zeros((2, 3), "float64")),
        'input `x` must have dtype float32, got float64; convert it first (array.astype("float32"))',
    ),
    (
        "x",
        np.full((2, 3), "1"),
        "arrays of strings have no elements that kernels know. What takes strings takes their numbers:"
        " relay.frontend.encode_strings(...)",
    ),
]


@pytest.mark.parametrize(("name", "value", "text"), CALLS)
def test_set_input(executor: graph_executor.GraphModule, name: str, value: Any, text: str) -> None:
    with pytest.raises(Exception) as caught:
        executor.set_input(name, value)
    assert str(caught.value) == text


def packed(value: np.ndarray, out: np.ndarray) -> str:
    """What a compiled function says to its arguments."""
    x = te.placeholder((4,), name="x")
    add = tvm.build(te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="y")]), target="llvm")
    with pytest.raises((ValueError, TypeError, tvm.TVMError)) as caught:
        add(value, out)
    return str(caught.value)


@pytest.mark.parametrize(("value", "what"), [(["a"], "strings"), ([{}], "Python objects")])
def test_arrays_without_numbers(value: list[Any], what: str) -> None:
    """Everywhere the same text: by reference, as an argument of a function, and in the virtual machine."""
    given = np.array(value, None if what == "strings" else object)
    text = f"arrays of {what} have no elements that kernels know. What takes strings takes their numbers"
    x = relay.var("x", shape=(1,))
    machine = relay.create_executor(
        "vm", tvm.IRModule.from_expr(relay.Function([x], x + x)), tvm.cpu(), "llvm"
    ).evaluate()
    for take in (tvm.nd.array, tvm.nd.from_dlpack, global_func("runtime.CheckSeal"), machine):
        with pytest.raises(TypeError, match=re.escape(text)):
            take(given)


def test_packed_function() -> None:
    out = np.zeros(4, "float32")
    assert packed(np.zeros(5, "float32"), out) == "main: argument 0 (x): dimension 0 must be 4, but is 5"
    assert packed(out, np.zeros((4, 1), "float32")) == (
        "main: argument 1 (y): its number of dimensions must be 1, but is 2"
    )
    assert packed(np.zeros(8, "float32")[::2], out) == (
        "main: argument 0 (x) must be compact and row-major: stride 0 of it is 2"
    )
    assert packed(np.zeros(4, "int32"), out) == (
        "main: argument 0 (x): its dtype must be float32: its type code (DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool) must"
        " be 2, but is 0"
    )
