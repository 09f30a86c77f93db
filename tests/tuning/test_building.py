"""Libraries of scheduled programs, made in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.support.test_workers import until
from tests.tuning import kernels
from tilewright.support.object_kind import ELF, ObjectKind
from tilewright.tir.function import IN_PLACE
from tilewright.tuning.building import LocalBuilder, compile_kernel
from tilewright.tuning.measure import ENTRY, Failure, Source


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    found = LocalBuilder(2, timeout=20)
    yield found
    found.close()


def sleeping(source: Source, path: Path) -> Path:
    """Compiles nothing, slowly."""
    path.touch()
    time.sleep(60)
    return path


def test_libraries_in_the_order_of_programs(builder: LocalBuilder, tmp_path: Path) -> None:
    names = ["right", "unlinked", "wrong", "right"]
    found = builder.build([kernels.source(getattr(kernels, name)) for name in names], tmp_path)
    assert [b.failure for b in found] == [None, Failure.BUILD, None, None]
    assert "could not be linked" in found[1].message and found[1].path is None
    a, b = tvm.nd.array(np.zeros(256, "float32")), tvm.nd.empty((256,))
    sums = []
    for built in (found[0], found[2], found[3]):
        assert built.path is not None and built.path.parent == tmp_path and built.seconds > 0
        tvm.runtime.load_module(built.path)[ENTRY](a, b)
        sums.append(b.numpy().sum())
    assert sums == [256, 257, 256]


def test_kernels_that_write_in_place_have_arrays_apart(tmp_path: Path) -> None:
    program = tvm.IRModule({"main": kernels.right.with_attr(IN_PLACE, (0, 1))})
    library = compile_kernel(Source(program, tvm.target.Target("llvm")), tmp_path / "k")
    a, b = tvm.nd.array(np.zeros(256, "float32")), tvm.nd.empty((256,))
    tvm.runtime.load_module(library)[ENTRY](a, b)
    assert (a.numpy() == 0).all() and (b.numpy() == 1).all()


def test_libraries_for_other_machines(builder: LocalBuilder, tmp_path: Path) -> None:
    arm, windows = builder.build(
        [
            kernels.source(kernels.right, "llvm -mtriple=aarch64-linux-gnu"),
            kernels.source(kernels.right, "llvm -mtriple=x86_64-w64-windows-gnu"),
        ],
        tmp_path,
    )
    assert arm.path is not None and ObjectKind.of(arm.path.read_bytes()) == ObjectKind(ELF, 183, 64)
    assert windows.path is not None and windows.path.suffix == ".dll" and windows.path.read_bytes()[:2] == b"MZ"


def test_the_cache_of_the_user_is_left_alone(
    builder: LocalBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", os.fspath(tmp_path / "cache"))
    own = LocalBuilder(1)
    (built,) = own.build([kernels.source(kernels.right)], tmp_path)
    own.close()
    assert built.path is not None and not (tmp_path / "cache").exists()


def test_what_takes_too_long_or_is_killed(tmp_path: Path) -> None:
    builder = LocalBuilder(1, timeout=0.3, compile=sleeping)
    (late,) = builder.build([kernels.source(kernels.right)], tmp_path)
    assert late.failure is Failure.BUILD_TIMEOUT and late.message == "it took longer than 0.3 s"
    builder.close()
    (tmp_path / "0").unlink(missing_ok=True)
    builder = LocalBuilder(1, compile=sleeping)
    killer = threading.Thread(target=lambda: until((tmp_path / "0").exists) and kill(builder))
    killer.start()
    (killed,) = builder.build([kernels.source(kernels.right)], tmp_path)
    killer.join()
    assert killed.failure is Failure.BUILD and "killed by signal 9 (SIGKILL)" in killed.message
    builder.close()


def kill(builder: LocalBuilder) -> None:
    for pid in builder.pids:
        os.kill(pid, signal.SIGKILL)
