"""Machines that lack something: no home, memory, threads, space or readers of the output are no defects."""

from __future__ import annotations

import errno
import gzip
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import command, dense_model
from tests.slow import all_but
from tilewright.support import cache
from tilewright.support.errors import MEMORY, THREADS, InternalError, TVMError, environment_fault, said
from tilewright.support.files import kept_folder, temporary_folder
from tilewright.support.linker import write_library

COMMAND = [sys.executable, "-m", "tilewright"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dense.onnx and dense.so."""
    place = tmp_path_factory.mktemp("environment")
    dense_model(place / "dense.onnx")
    assert command("compile", place / "dense.onnx", "-o", place / "dense.so").code == 0
    return place


def shell(line: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which $T is the command."""
    env = {**os.environ, "T": " ".join(COMMAND)}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300, **options
    )


@pytest.mark.parametrize(
    "words", ["memory dense.onnx", "import dense.onnx --check", "import dense.onnx", "run dense.so --quiet", "--help"]
)
def test_output_that_nobody_reads(folder: Path, words: str) -> None:
    assert shell(f"$T {words} | true", folder).stderr == ""
    closed = shell(f"$T {words} >&-", folder)
    assert (closed.returncode, closed.stderr, closed.stdout) == (0, "", "")
    full = shell(f"$T {words} >/dev/full", folder)
    assert full.returncode == 1
    assert full.stderr.endswith("error: standard output cannot be written: No space left on device\n")


@pytest.mark.parametrize("encoding", all_but(["ascii"], ["utf-8:strict", "ascii", "latin-1"]))
def test_names_that_are_no_text(tmp_path: Path, encoding: str) -> None:
    """A file's name is bytes, which need not be UTF-8, and its characters may be none of the terminal's encoding."""
    name = os.fsdecode(b"caf\xff \xce\xb1")
    dense_model(tmp_path / f"{name}.onnx")
    steps = [
        f"$T compile '{name}.onnx' -o '{name}.so' --report '{name}.html'",
        f"$T inspect '{name}.so'",
        f"$T run '{name}.so' -o '{name}.npz'",
        f"$T compile '{name}.onnx' -q -o '{name}.tar'",
        f"$T run '{name}.tar' --csv",
    ]
    for step in steps:
        done = shell(f"PYTHONIOENCODING={encoding} {step}", tmp_path)
        assert done.returncode == 0, (step, done.stderr)
        assert ".so" not in step.split("-o")[-1] or "caf\\udcff " in done.stdout
    (tmp_path / f"{name}.so").write_bytes(b"cut")
    done = shell(f"PYTHONIOENCODING={encoding} $T run '{name}.so'", tmp_path)
    assert done.returncode == 1 and "is not a library: its 3 bytes do not begin with an ELF header" in done.stderr


def test_the_head_of_an_output(folder: Path) -> None:
    done = shell("$T import dense.onnx | head -1", folder)
    assert done.stdout == '#[version = "0.0.5"]\n' and done.stderr == ""


@pytest.mark.parametrize(
    "module", ["click", "numpy", "numpy._core.overrides", "tilewright.relay.backend.te_compiler", "rich.table"]
)
@pytest.mark.parametrize(("signal", "ends"), [("SIGINT", (130, "interrupted\n")), ("SIGTERM", (143, ""))])
def test_signals_while_modules_are_loaded(folder: Path, module: str, signal: str, ends: tuple[int, str]) -> None:
    """NumPy's core makes an ImportError and a traceback of the exception, others a traceback."""
    program = f"""
import os, signal, sys
from importlib.abc import MetaPathFinder
class Interrupt(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{signal})
# Tests that run in the background have interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["tilewright", "compile", "dense.onnx", "-o", "again.so"]
from tilewright.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr, done.stdout) == (*ends, "")


def test_interrupt_while_a_command_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import relay

    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(relay, "build", interrupt)
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so")
    assert (done.code, done.err) == (130, "\ninterrupted\n")


@pytest.mark.parametrize("program", ["tilewright", "tvmc"])
def test_termination_while_a_command_works(folder: Path, tmp_path: Path, program: str) -> None:
    """SIGTERM ends a command as Ctrl-C does: temporary folders are removed."""
    script = f"""
import os, signal, sys
from tilewright import __main__
from tilewright.relay.backend import compilation
from tilewright.support.files import temporary_folder
def compile_model(*args):
    with temporary_folder() as place:
        print(place.exists(), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
compilation.compile_model = compile_model
sys.argv = [{program!r}, "compile", "dense.onnx", "-o", "again.tar", *(["--target", "llvm"] if {program!r} == "tvmc" else [])]
__main__.{"main" if program == "tilewright" else "tvmc"}()
"""
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=os.environ | {"TMPDIR": str(tmp_path / "temporary"), "TILEWRIGHT_CACHE_BYTES": "0"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (143, "True\n", "")
    assert not list((tmp_path / "temporary").iterdir())


def test_no_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.setattr(cache, "_default", cache.Cache())
    why = (
        f"the compile cache has no place: HOME is not set, and user {os.getuid()} has no home directory in the password database;"
        " set TILEWRIGHT_CACHE_DIR to a directory that can be written"
    )
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so")
    assert done.code == 0
    assert done.err == f"warning: {why}. Until then nothing is kept, and all is compiled anew\n"
    done = command("cache", "info")
    assert (done.code, done.err) == (1, f"error: {why}\n")


@pytest.mark.parametrize("text", ["abc", "2G", "-1", "1e9", "٣"])
def test_a_limit_of_the_cache_that_is_no_number(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", text)
    why = (
        f"the environment variable TILEWRIGHT_CACHE_BYTES must be a number of bytes, 0 for no cache, but it is `{text}`; unset it for"
        " 2147483648"
    )
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so")
    assert (done.code, done.err) == (1, f"error: {why}\n")
    assert command("cache", "info").err == f"error: {why}\n"


WRONG = {
    "TVM_NUM_THREADS": (
        "abc",
        "must be a number of threads from 1 to 1024, but it is `abc`; unset it for as many as the process may use",
    ),
    "TILEWRIGHT_CACHE_BYTES": (
        "2G",
        "must be a number of bytes, 0 for no cache, but it is `2G`; unset it for 2147483648",
    ),
    "TVM_PYGMENTIZE_STYLE": ("x", "must be light, dark, ansi or a style of Pygments, but it is `x`; unset it for ansi"),
    "TVM_BLACK_FORMAT": ("maybe", "must be 1 (yes) or 0 (no), but it is `maybe`; unset it for 0"),
    "TVM_TEST_TARGETS": (
        "llvm;nonsense",
        "must hold targets separated by semicolons, but `nonsense` is none: there is no target kind 'nonsense'. Kinds: c,",
    ),
    "TVM_TEST_DISABLE_CACHE": ("2", "must be 1 (yes) or 0 (no), but it is `2`; unset it for 0"),
    "TILEWRIGHT_CPU_WITHOUT": (
        "avx512",
        "must hold CPU features between commas, such as avx512f,fma, but it is `avx512`, and `avx512` is not a feature that is checked on"
        " this architecture; unset it to hide none",
    ),
}


def test_wrong_variables_are_refused_before_any_work(tmp_path: Path) -> None:
    """All in one message, before the model is read: the file is not even a model."""
    (tmp_path / "model.onnx").write_text("none")
    done = subprocess.run(
        [*COMMAND, "compile", tmp_path / "model.onnx", "-o", tmp_path / "model.so"],
        env={**os.environ, **{name: value for name, (value, _) in WRONG.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (1, "")
    found = done.stderr.removeprefix("error: ").splitlines()
    # Variables of tests are read by tests only.
    told = {name: why for name, (_, why) in WRONG.items() if not name.startswith("TVM_TEST_")}
    assert len(found) == len(told), done.stderr
    for name, why in told.items():
        assert [line for line in found if line.startswith(f"the environment variable {name} {why}")], (
            name,
            done.stderr,
        )


def test_help_needs_no_environment(folder: Path) -> None:
    done = shell("TVM_NUM_THREADS=abc $T compile --help", folder)
    assert done.returncode == 0 and done.stdout.startswith("Usage: tilewright compile") and not done.stderr


def test_wrong_variables_at_first_use_in_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads: tests/runtime/test_thread_pool.py; features: tests/runtime/test_modules.py."""
    from tilewright.script.highlight import cprint, default_theme
    from tilewright.testing import fixture
    from tilewright.testing.features import target_names

    uses = {
        "TVM_BLACK_FORMAT": lambda: cprint("x"),
        "TVM_PYGMENTIZE_STYLE": default_theme,
        "TVM_TEST_TARGETS": target_names,
        "TVM_TEST_DISABLE_CACHE": lambda: fixture(cache_return_value=True)(lambda: 1),
        "TILEWRIGHT_CACHE_BYTES": lambda: cache.Cache().usable(),
    }
    for name, use in uses.items():
        value, why = WRONG[name]
        monkeypatch.setenv(name, value)
        with pytest.raises(TVMError) as caught:
            use()
        assert str(caught.value).startswith(f"the environment variable {name} {why}")
        monkeypatch.delenv(name)


def test_a_cache_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that no user can write; what is in a cache that only others may write is still read (test_cache.py)."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "/proc/cache")
    monkeypatch.setattr(cache, "_default", cache.Cache())
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so")
    assert done.code == 0
    assert done.err == (
        "warning: nothing can be kept in the compile cache /proc/cache (No such file or directory); compiling goes on without it."
        " Free some space, or set TILEWRIGHT_CACHE_DIR to another directory\n"
    )


def test_no_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not have the address space that LLVM's library takes."""
    limits = (280 << 20, 280 << 20)
    done = shell(
        "$T compile dense.onnx -o again.so", folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits)
    )
    assert (done.returncode, done.stderr, done.stdout) == (1, f"error: {MEMORY}\n", "")


def test_no_more_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    done = command("compile", folder / "dense.onnx", "-o", folder / "again.so")
    assert (done.code, done.err) == (1, f"error: {THREADS}\n")


def test_a_full_folder_for_temporary_files(folder: Path, tmp_path: Path) -> None:
    """The limit of a file's size stands for a full disk: the first file that is too large is a temporary one."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = shell(
        f"trap '' XFSZ; TMPDIR={tmp_path} TILEWRIGHT_CACHE_BYTES=0 $T compile dense.onnx -o again.so",
        folder,
        preexec_fn=limit,
    )
    assert done.returncode == 1
    assert re.fullmatch(
        f"error: temporary files cannot be written in {tmp_path}/tilewright-[a-z0-9_]+: File too large; free some space there, or set"
        " TMPDIR to another directory",
        done.stderr.splitlines()[-1],
    )
    assert list(tmp_path.iterdir()) == []


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    text = (
        "temporary files cannot be written, neither in TMPDIR, /nowhere, nor in other directories for them; set TMPDIR to a directory that"
        " can be written and has free space"
    )
    for make in (kept_folder, temporary_folder().__enter__):
        with pytest.raises(TVMError) as found:
            make()
        assert str(found.value) == text
    with pytest.raises(TVMError) as found:
        write_library({"a.o": b""}, tmp_path / "a.so")
    assert str(found.value) == text


def test_errors_of_other_files_do_not_blame_temporary_ones(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="elsewhere"), temporary_folder():
        (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(TVMError, match="temporary files cannot be written in"), temporary_folder():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


CAUSED = ImportError("numpy._core.umath failed to import")
CAUSED.__cause__ = MemoryError()
FAULTS = [
    (MemoryError(), MEMORY),
    (np.exceptions.AxisError(1, 0), None),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), MEMORY),
    (OSError("libllvmlite.so: failed to map segment from shared object"), MEMORY),
    (CAUSED, MEMORY),
    (RuntimeError("can't start new thread"), THREADS),
    (
        RuntimeError(
            "ThreadOptions&) pthread_create failed, error code: 11 error msg: Resource temporarily unavailable"
        ),
        THREADS,
    ),
    (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), THREADS),
    (RuntimeError("dictionary changed size during iteration"), None),
    (
        ModuleNotFoundError("No module named 'onnx'", name="onnx"),
        "a package that is needed cannot be loaded: No module named 'onnx'",
    ),
    (ModuleNotFoundError("No module named 'tilewright.nowhere'", name="tilewright.nowhere"), None),
    (PermissionError(errno.EACCES, "Permission denied", "m.onnx"), "m.onnx: Permission denied"),
    (OSError(errno.ENOSPC, "No space left on device", "m.so"), "m.so: No space left on device; free some space there"),
    (KeyError("x"), None),
]


@pytest.mark.parametrize("error, text", FAULTS)
def test_faults_of_the_environment(error: BaseException, text: str | None) -> None:
    assert environment_fault(error) == text


PACKED = "it is cut off or damaged, or no file of its kind"
MEANINGS = [
    (KeyError("x"), "x is missing"),
    (TypeError("reshape takes a tensor, not a tuple"), "reshape takes a tensor, not a tuple"),
    (KeyError("the model has no input x"), "the model has no input x"),
    (IndexError("list index out of range"), "something in it has fewer elements than are read"),
    (TypeError("'NoneType' object is not iterable"), "something in it is of another kind than its place takes"),
    (
        AttributeError("'int' object has no attribute 'shape'"),
        "something in it is of another kind than its place takes",
    ),
    (
        ValueError("not enough values to unpack (expected 2, got 1)"),
        "something in it has another number of elements than are read",
    ),
    (ValueError("invalid literal for int() with base 10: 'x'"), "a number in it cannot be read"),
    (ValueError("the axis is 4, but must be below 3"), "the axis is 4, but must be below 3"),
    (MemoryError(), "there is not enough memory"),
    (np._core._exceptions._ArrayMemoryError((1 << 50,), np.dtype("u1")), "there is not enough memory"),  # type: ignore[attr-defined]
    (tarfile.ReadError("file could not be opened successfully:\n- method gz: ReadError('empty file')"), PACKED),
    (zipfile.BadZipFile("File is not a zip file"), PACKED),
    (gzip.BadGzipFile("Not a gzipped file (b'he')"), PACKED),
    (zlib.error("Error -3 while decompressing data: invalid block type"), PACKED),
    (
        ValueError("Object arrays cannot be loaded when allow_pickle=False"),
        "it holds Python objects (pickles), which are not loaded from files",
    ),
    (OSError(28, "No space left on device"), "No space left on device"),
    (FileNotFoundError(2, "No such file or directory", "a.onnx"), "a.onnx: No such file or directory"),
    (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
    (InternalError("a rule"), str(InternalError("a rule"))),
]


@pytest.mark.parametrize("error, text", MEANINGS)
def test_exceptions_in_words(error: BaseException, text: str) -> None:
    assert said(error) == text
