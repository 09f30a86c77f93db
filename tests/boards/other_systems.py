"""What is built for Windows and macOS: its form, and, under Wine, sessions with the server."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.boards.boards import PATIENCE, ROOT, session, tilewright
from tests.boards.on_boards import CLOSE, cnn, compiled, folder, run  # noqa: F401

WINDOWS = "llvm -mtriple=x86_64-pc-windows-gnu -mcpu=x86-64-v2"
WINE = shutil.which("wine64") or shutil.which("wine") or "/usr/lib/wine/wine64"


def built(name: str) -> Path:
    output = ROOT / "build" / "boards" / name
    done = tilewright("runtime", "build", "--target", name, "--rpc", "-o", output, "--quiet")
    assert done.returncode == 0, done.stderr
    return output


def test_mach_o() -> None:
    output = built("aarch64-macos")
    for name, kind in (("libtilewright_runtime.dylib", 6), ("tilewright_rpc", 2)):
        data = (output / name).read_bytes()
        assert struct.unpack_from("<IIII", data)[::3] == (0xFEEDFACF, kind)
        assert struct.unpack_from("<I", data, 4)[0] == 0x0100000C
        assert b"libSystem" in data
    library = (output / "libtilewright_runtime.dylib").read_bytes()
    assert len(library) < 600_000 and b"_TVMFFIFunctionCall\0" in library


def test_dll() -> None:
    output = built("x86_64-windows-gnu")
    library = (output / "tilewright_runtime.dll").read_bytes()
    assert library.startswith(b"MZ") and len(library) < 600_000 and b"TVMFFIFunctionCall\0" in library
    assert (output / "tilewright_rpc.exe").read_bytes().startswith(b"MZ")


def test_a_session_under_wine(cnn: Path, folder: Path) -> None:  # noqa: F811
    server = built("x86_64-windows-gnu") / "tilewright_rpc.exe"
    environment = {
        **os.environ,
        "WINEDEBUG": "-all",
        "WINEPREFIX": str(ROOT / "build" / "wine"),
        "TVM_NUM_THREADS": "2",
    }
    command = [WINE, str(server), "server", "--port=0", "--key=wine"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("serving on "), line
            remote = session(int(line.rsplit(":", 1)[1]), "wine")
            pixels = {"image": np.random.default_rng(1).random((1, 3, 32, 32), "float32")}
            remote.upload(compiled(cnn, WINDOWS, folder / "cnn.dll"), "cnn.dll")
            want = run(tvm.runtime.load_module(str(compiled(cnn, "llvm", folder / "cnn.so"))), tvm.cpu(), pixels)
            got = run(remote.load_module("cnn.dll"), remote.cpu(), pixels)
            np.testing.assert_allclose(got[0], want[0], **CLOSE)
            assert remote.listdir(".") == ["cnn.dll"]
            with pytest.raises(tvm.TVMError, match="leads out of the session's folder"):
                remote.upload(b"x", "..\\out")
            remote.upload(compiled(cnn, "llvm", folder / "cnn.so"), "cnn.so")
            with pytest.raises(tvm.TVMError, match="cnn.so was made for Linux, but this machine is Windows"):
                remote.load_module("cnn.so")
            del remote
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
