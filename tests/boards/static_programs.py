"""Programs of one file for boards: models as static libraries, linked by zig with the runtime's archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.boards.boards import AARCH64, QEMU, ROOT, X86, Board
from tilewright import relay

PROGRAM = r"""
#include <tilewright/host.h>
#include <cstdio>
using namespace tilewright;

static float second(const char* prefix) {
  Module executor = Function::global("runtime.SystemLib")(std::string(prefix)).module()["default"](cpu()).module();
  executor["set_input"]("x", Tensor({1, 3}, std::vector<float>{1, 1, 1}));
  executor["run"]();
  return executor["get_output"](0).tensor().data<float>()[1];
}

int main() { printf("%.6f %.6f\n", second("first_"), second("second_")); }
"""


def model(scale: float, prefix: str) -> tvm.IRModule:
    x, w = relay.var("x", shape=(1, 3)), relay.const(scale * np.arange(6, dtype="float32").reshape(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))))
    return mod.with_attr("system_lib_prefix", prefix)


def program(board: Board, runtime: Path, folder: Path) -> Path:
    """The program: two models and the runtime in one file."""
    for scale, name in ((0.1, "first"), (0.2, "second")):
        relay.build(model(scale, f"{name}_"), board.target).export_library(folder / f"{name}.a")
    (folder / "main.cc").write_text(PROGRAM)
    whole = [
        "-Wl,--whole-archive",
        str(folder / "first.a"),
        str(folder / "second.a"),
        str(runtime),
        "-Wl,--no-whole-archive",
    ]
    command = [sys.executable, "-m", "ziglang", "c++", "-target", f"{board.name}.2.28", "-std=c++17", "-O1", "-s"]
    subprocess.run(
        [*command, f"-I{ROOT / 'native' / 'include'}", str(folder / "main.cc"), *whole, "-o", str(folder / "main")],
        check=True,
    )
    return folder / "main"


@pytest.mark.parametrize("board", [X86, AARCH64], ids=lambda b: b.name)
def test_one_file(board: Board, tmp_path: Path) -> None:
    made = program(board, board.server.with_name("libtilewright_runtime.a"), tmp_path)
    emulator = [QEMU / "bin" / f"qemu-{board.emulator}-static", "-L", QEMU / board.libraries, "-cpu", board.cpu]
    done = subprocess.run(
        [*(emulator if board.emulator else []), made], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    want = [1 / (1 + np.exp(-9 * scale)) for scale in (0.1, 0.2)]
    assert [float(v) for v in done.stdout.split()] == pytest.approx(want, abs=1e-5)
    assert (
        "libtilewright_runtime"
        not in subprocess.run(["readelf", "-d", made], capture_output=True, text=True, check=True).stdout
    )
