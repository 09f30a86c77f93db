"""The builder of the runtime for other machines: names of machines, the choice of sources, the cache, and errors."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright.cli import cli, commands  # noqa: F401
from tilewright.deploy import native_build, zig
from tilewright.deploy.machines import MACHINES, machine_of
from tilewright.deploy.native_build import Sources, compiled, device_sources, native_sources, runtime_sources
from tilewright.support import linker
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import ObjectKind


@pytest.mark.parametrize(
    "name, found",
    [
        ("aarch64-linux-gnu", "aarch64-linux-gnu"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
        ("arm64", "aarch64-linux-gnu"),
        ("x86_64-pc-linux-gnu", "x86_64-linux-gnu"),
        ("armv7l-unknown-linux-gnueabihf", "armv7-linux-gnueabihf"),
        ("riscv64", "riscv64-linux-gnu"),
        ("i386-linux-gnu", "i686-linux-gnu"),
        ("arm64-apple-darwin", "aarch64-macos"),
        ("arm64-apple-macosx12.0.0", "aarch64-macos"),
        ("x86_64-pc-windows-gnu", "x86_64-windows-gnu"),
        ("wasm32-unknown-unknown", "wasm32"),
        ("raspberry-pi/5", "aarch64-linux-gnu"),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+v", "riscv64-linux-gnu"),
    ],
)
def test_names_of_machines(name: str, found: str) -> None:
    assert machine_of(name).name == found


def test_an_unknown_machine_names_the_nearest() -> None:
    with pytest.raises(TVMError, match=r"no runtime for the target 'aarch65-linux-gnu'; nearest: aarch64-linux-gnu"):
        machine_of("aarch65-linux-gnu")
    with pytest.raises(TVMError, match="'llvm -mcpu=znver5' names no machine: it needs -mtriple"):
        machine_of("llvm -mcpu=znver5")
    with pytest.raises(TVMError, match="'cuda' names no machine: it needs -mtriple"):
        machine_of("cuda")
    with pytest.raises(TVMError, match="there is no machine 'raspbery-pi/5'; nearest known: raspberry-pi/5"):
        machine_of("raspbery-pi/5")
    done = CliRunner().invoke(cli, ["runtime", "build", "--target", "vax"])
    assert "no runtime for the target 'vax'" in str(done.exception)


def test_a_system_has_its_own_sources() -> None:
    sources = native_sources()
    for machine in MACHINES.values():
        names = {p.relative_to(sources.root / "src").as_posix() for p in runtime_sources(machine)}
        folders = {n.split("/")[1] for n in names if n.startswith("platform/")}
        assert folders <= set(machine.system.platform)
        assert "module.cc" in names


def test_a_system_has_libraries_of_devices_that_it_has_drivers_for() -> None:
    linux = {p.name for p in device_sources(machine_of("aarch64"), "cuda")}
    assert {"library.cc", "nvrtc.cc", "errors.cc", "driver.cc"} <= linux
    folders = {p.parent.name for p in device_sources(machine_of("x86_64-windows-gnu"), "opencl")}
    assert folders == {"common", "windows", "opencl"}
    with pytest.raises(
        TVMError, match="macOS has no drivers for devices of type 'cuda'; it has those for: opencl, vta"
    ):
        device_sources(machine_of("aarch64-macos"), "cuda")
    with pytest.raises(
        TVMError, match="WebAssembly has no drivers for devices of type 'opencl'; it has those for: none"
    ):
        device_sources(machine_of("wasm32"), "opencl")


@pytest.fixture
def few(tmp_path: Path) -> Sources:
    """Two sources and a header."""
    (tmp_path / "src").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / native_build.COLD_LIST).write_text("b.cc\n")
    (tmp_path / "include" / "number.h").write_text("#define NUMBER 7\n")
    (tmp_path / "src" / "a.cc").write_text('#include <number.h>\nextern "C" int a() { return NUMBER; }\n')
    (tmp_path / "src" / "b.cc").write_text('extern "C" int b() { return 1; }\n')
    return Sources(tmp_path, tmp_path / "include")


def test_objects_are_compiled_once(few: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, runs, told = machine_of("riscv64"), [], []
    run = zig.run
    monkeypatch.setattr(zig, "run", lambda *given: runs.append(given[2]) or run(*given))
    # A text of its own, so that no earlier run has compiled it.
    (few.root / "src" / "b.cc").write_text(f'extern "C" int b() {{ return {hash(few.root) % 1000000}; }}\n')
    (few.root / "include" / "number.h").write_text(f"#define NUMBER {hash(few.root) % 1000003}\n")
    files = runtime_sources(machine, few)
    first = compiled(machine, files, few, lambda *report: told.append(report))
    assert sorted(runs) == ["src/a.cc", "src/b.cc"]
    assert sorted(first) == ["src_a.o", "src_b.o"] and [t[:2] for t in told] == [(1, 2), (2, 2)]
    kind = ObjectKind.of(first["src_a.o"])
    assert kind is not None and kind.machine_name == "riscv64"
    assert compiled(machine, files, few) == first and len(runs) == 2
    (few.root / "src" / "b.cc").write_text(f'extern "C" int b() {{ return {hash(few.root) % 999}; }}\n')
    assert compiled(machine, files, few)["src_a.o"] == first["src_a.o"]
    assert runs[2:] == ["src/b.cc"]
    (few.root / "include" / "number.h").write_text('#include "../src/other.h"\n#define NUMBER OTHER\n')
    (few.root / "src" / "other.h").write_text(f"#define OTHER {hash(few.root) % 1000005}\n")
    compiled(machine, files, few)
    assert runs[3:] == ["src/a.cc"]  # which alone includes it
    (few.root / "src" / "other.h").write_text(f"#define OTHER {hash(few.root) % 1000007}\n")
    (few.root / "src" / "another.h").write_text("#error nobody includes it\n")
    compiled(machine, files, few)
    assert runs[4:] == ["src/a.cc"]


def test_what_the_compiler_says_is_in_the_error(few: Sources) -> None:
    (few.root / "src" / "b.cc").write_text("int b() { return missing; }\n")
    machine = machine_of("aarch64")
    with pytest.raises(TVMError, match=r"(?s)building src/b.cc failed: zig says.*missing"):
        compiled(machine, runtime_sources(machine, few), few)


def test_without_zig(few: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ziglang" else find(name))
    with pytest.raises(TVMError, match=r"needs zig.*pip install 'tilewright\[cross\]'"):
        compiled(machine_of("aarch64"), runtime_sources(machine_of("aarch64"), few), few)


@pytest.mark.parametrize(
    "script, says", [("echo broken >&2; exit 3", "broken"), ("exit 0", "nothing, and ends with status 0")]
)
def test_zig_that_does_not_run(script: str, says: str, few: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """No object is kept under a version that is not known."""
    monkeypatch.setattr(linker, "zig", lambda *arguments: ["sh", "-c", script, *arguments])
    for _ in range(2):
        with pytest.raises(TVMError, match=rf"zig does not run: .*says\n{says}\nInstall the package ziglang again"):
            compiled(machine_of("aarch64"), runtime_sources(machine_of("aarch64"), few), few)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is compiled, and none is made."""
    monkeypatch.setattr(native_build, "compiled", None)
    (tmp_path / "file").write_text("")
    for place, why in (
        (tmp_path / "file" / "board", "Not a directory"),
        (Path("/proc/board"), "No such file or directory"),
    ):
        with pytest.raises(TVMError, match=f"the folder {place} cannot be written: {why}; choose another"):
            native_build.build_runtime(machine_of("aarch64"), place)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_fails_or_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lay there stays, of several files as it was."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native_build, "compiled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            native_build.build_runtime(machine_of("aarch64"), tmp_path / "new" / "board")
    assert list(tmp_path.iterdir()) == []
    files = {tmp_path / "libtilewright_runtime.so": b"new", tmp_path / "gone" / "tilewright_rpc": b"new"}
    built = native_build.Built(tmp_path / "libtilewright_runtime.so", None, None)
    monkeypatch.setattr(native_build, "_files", lambda *_: (files, built))
    built.library.write_bytes(b"old")
    with pytest.raises(TVMError, match="gone/tilewright_rpc cannot be written: No such file"):
        native_build.build_runtime(machine_of("aarch64"), tmp_path)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = r"a disk is full, that of temporary files \(.*TMPDIR.*ZIG_GLOBAL_CACHE_DIR"
    with pytest.raises(TVMError, match=full):
        zig.run(["sh", "-c", "echo 'error: unable to write: NoSpaceLeft' >&2; exit 1"], tmp_path / "x.o", "x")
    with pytest.raises(TVMError, match="zig says\nnothing, and ends with status 6"):
        zig.run(["sh", "-c", "exit 6"], tmp_path / "x.o", "x")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: argparse.Namespace(free=4096))
    with pytest.raises(TVMError, match=full):
        zig.run(["sh", "-c", "exit 6"], tmp_path / "x.o", "x")


def test_headers_of_systems_are_included_by_their_files_only() -> None:
    root = native_sources().root / "src"
    systems = r"(sys|net|netinet|arpa|linux|asm|mach)/.*|unistd|dlfcn|link|elf|sched|pthread|poll|fcntl|signal|netdb|windows|winsock2"
    system = re.compile(rf"#include <({systems})(\.h)?>")
    found = {
        p.relative_to(root).as_posix()
        for p in [*root.rglob("*.cc"), *root.rglob("*.h")]
        if system.search(p.read_text())
    }
    assert [name for name in sorted(found) if not re.match(r"platform/\w+/", name)] == []
