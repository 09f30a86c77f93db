"""Libraries for machines that this one is not: each links, or is refused before anything is compiled."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command, relu_model
from tilewright import relay
from tilewright.codegen.llvm import compile_object
from tilewright.ir.transform import PassContext
from tilewright.support.object_kind import COFF, ELF, MACH_O, ObjectKind

LIBRARIES = {
    "x86_64-unknown-linux-gnu": ELF,
    "i686-unknown-linux-gnu": ELF,
    "aarch64-unknown-linux-gnu": ELF,
    "aarch64-linux-android": ELF,
    "armv7-unknown-linux-gnueabihf": ELF,
    "armv7-linux-gnueabi": ELF,
    "riscv64-unknown-linux-gnu": ELF,
    "riscv64-linux-gnu -mattr=+v": ELF,
    "riscv32-unknown-elf": ELF,
    "thumbv7em-unknown-none-eabihf -mcpu=cortex-m7": ELF,
    "arm64-apple-darwin": MACH_O,
    "x86_64-apple-macosx13.0": MACH_O,
}
WINDOWS = ("x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu", "i686-pc-windows-msvc", "aarch64-pc-windows-msvc")
NAMES = ("__tilewright_metadata", "__tilewright_constants", "__tilewright_run")


def classifier(triple: str) -> Any:
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 8, 9, 9))
    w = relay.const(rng.standard_normal((16, 8, 3, 3)).astype("float32"))
    features = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))))
    scores = relay.nn.dense(features, relay.const(rng.standard_normal((10, 16)).astype("float32")))
    with PassContext(opt_level=3):
        return relay.build(tvm.IRModule.from_expr(relay.nn.softmax(scores)), f"llvm -mtriple={triple}")


@pytest.mark.parametrize("triple", LIBRARIES)
def test_libraries(triple: str, tmp_path: Path) -> None:
    container = LIBRARIES[triple]
    path = tmp_path / ("m.dylib" if container == MACH_O else "m.so")
    classifier(triple).export_library(path)
    data = path.read_bytes()
    kind = ObjectKind.of(data)
    assert kind is not None and kind.container == container
    assert all([name.encode() in data for name in NAMES])


@pytest.mark.parametrize("triple", [*LIBRARIES, *WINDOWS])
def test_libraries_through_c(triple: str, tmp_path: Path) -> None:
    """Machine and ABI are those of LLVM's libraries."""
    container, kinds = LIBRARIES.get(triple, COFF), []
    x = relay.var("x", shape=(4, 5))
    for kind in ("llvm", "c"):
        path = tmp_path / (kind + {ELF: ".so", MACH_O: ".dylib", COFF: ".tar"}[container])
        target = f"{kind} -mtriple={triple}"
        relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(x))), target).export_library(path)
        kinds.append(ObjectKind.of(path.read_bytes()))
    if container != COFF:
        assert kinds[0] is not None and kinds[0] == kinds[1]


@pytest.mark.parametrize("triple", [t for t in WINDOWS if t.startswith("x86_64")])
def test_a_library_for_windows(triple: str, tmp_path: Path) -> None:
    classifier(triple).export_library(tmp_path / "m.dll")
    data = (tmp_path / "m.dll").read_bytes()
    assert data.startswith(b"MZ") and all([name.encode() + b"\0" in data for name in (*NAMES, "__tilewright_context")])
    assert data.count(b".dll\0") <= 2  # its own name, and that of the C library where code calls it


@pytest.mark.parametrize("triple", WINDOWS)
def test_objects_for_windows(triple: str, tmp_path: Path) -> None:
    """What an archive holds links into a DLL, given what the C library of the system has."""
    classifier(triple).export_library(tmp_path / "m.tar")
    with tarfile.open(tmp_path / "m.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    objects = sorted(tmp_path.glob("*.o"))
    assert {k.container for p in objects if (k := ObjectKind.of(p.read_bytes()))} == {COFF}
    names = {"x86_64-pc-windows-gnu": ("___chkstk_ms",), "i686-pc-windows-msvc": ("_chkstk", "memset")}
    library = "".join(
        [f"define void @{name}() {{\n ret void\n}}\n" for name in names.get(triple, ("__chkstk", "memset"))]
    )
    target = tvm.target.Target(f"llvm -mtriple={triple}")
    library = f'target triple = "{target.triple}"\n@_fltused = global i32 1\n{library}'
    (tmp_path / "c.obj").write_bytes(compile_object(library, target))
    command = [sys.executable, "-m", "ziglang", "lld-link", "-dll", "-noentry", "-lldmingw", "-out:m.dll", "c.obj"]
    done = subprocess.run(
        [*command, *[p.name for p in objects]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    data = (tmp_path / "m.dll").read_bytes()
    assert data.startswith(b"MZ") and all([name.encode() + b"\0" in data for name in NAMES])


COFF_ONLY = "libraries for Windows are linked for x86-64 only; write a .tar and link its objects on Windows"
REFUSED = [
    ("aarch64-pc-windows-msvc", "m.dll", f"m.dll: {COFF_ONLY}"),
    ("x86_64-pc-windows-gnu", "m.so", "m.so: COFF objects of this target are written as .dll or .tar, not as .so"),
    ("x86_64-unknown-linux-gnu", "m.dylib", "m.dylib: ELF objects of this target are written as .so, .o or .tar, not as .dylib"),
    ("arm64-apple-darwin", "m.o", "m.o: Mach-O objects of this target are written as .so, .dylib or .tar, not as .o"),
    ("wasm32-unknown-unknown", "m.so", "m.so: WebAssembly objects of this target are written as .wasm, .o or .tar, not as .so"),
]  # fmt: skip


@pytest.mark.parametrize(("triple", "name", "text"), REFUSED)
def test_refused_before_compiling(
    triple: str, name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relu_model(Path("relu.onnx"), [2, 3])

    def never(*_: object) -> None:
        raise AssertionError("kernels were compiled")

    monkeypatch.setattr("tilewright.relay.backend.kernels.devices.compile_kernels", never)
    done = command("compile", "relu.onnx", "--target", f"llvm -mtriple={triple}", "-o", name)
    assert (done.code, done.err) == (1, f"error: {text}\n")
    assert not Path(name).exists()
