"""Exported libraries end in a checksum: damaged ones are refused before their code can run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.support import seal


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled model: y = relu(x w')."""
    x, w = relay.var("x", shape=(2, 8)), relay.const(np.ones((4, 8), "float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    path = tmp_path_factory.mktemp("sealed") / "model.so"
    relay.build(mod, "llvm").export_library(str(path))
    return path


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, bytes overwritten, left out or added."""
    out, at = bytearray(data), rng.randrange(len(data) - seal._FORM.size - 8)
    match rng.randrange(4):
        case 0:
            out[at] ^= 1 << rng.randrange(8)
        case 1:
            out[at : at + 8] = bytes(b ^ 0xFF for b in out[at : at + 8])
        case 2:
            del out[at : at + rng.randrange(1, 9)]
        case _:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_libraries_are_refused(library: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "damaged.so"
    path.write_bytes(damaged(library.read_bytes(), random.Random(seed)))
    with pytest.raises(ValueError, match=r"damaged\.so is damaged: its (\d+ bytes are not|checksum does not agree)"):
        tvm.runtime.load_module(str(path))


@pytest.mark.parametrize("suffix", [".tar", ".so"])
def test_what_is_whole_loads_and_archives_are_sealed_too(library: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    tvm.runtime.load_module(str(library))
    x = relay.var("x", shape=(3,))
    relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.tanh(x))), "llvm").export_library(str(path))
    tvm.runtime.load_module(str(path))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="its checksum does not agree; copy or compile it again"):
        tvm.runtime.load_module(str(path))


def test_files_without_a_seal_load(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain.so"
    path.write_bytes(library.read_bytes()[: -seal._FORM.size])
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    executor.run(x=np.ones((2, 8), "float32"))
    assert (executor.get_output(0).numpy() == 8).all()


@pytest.mark.parametrize("size", [1, 7, seal.PIECE - 1, seal.PIECE, seal.PIECE + 1, 2 * seal.PIECE + 5])
def test_pieces(tmp_path: Path, size: int) -> None:
    path, check = tmp_path / "file", tvm.get_global_func("runtime.CheckSeal")
    data = bytearray(random.Random(size).randbytes(min(size, 1000))) + bytes(max(0, size - 1000))
    path.write_bytes(data)
    check(str(path))  # not sealed yet
    seal.seal(path)
    check(str(path))
    with path.open("rb+") as file:
        file.seek(size - 1)
        file.write(bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match="its checksum does not agree"):
        check(str(path))


def test_hosts_without_python_refuse_them_too(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.so"
    path.write_bytes(damaged(library.read_bytes(), random.Random(7)))
    with pytest.raises(ValueError, match="is damaged"):
        tvm.get_global_func("runtime.ModuleLoadFromFile")(str(path))
