"""Models for WebAssembly: what a module imports and exports, what it holds, and how it is described."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.cli.command import command
from tests.codegen.small_programs import elementwise
from tilewright import relay
from tilewright.runtime.linking import wasm_format as wasm
from tilewright.runtime.linking.object_file import data_object
from tilewright.runtime.linking.symbol_file import symbol_file
from tilewright.runtime.linking.symbols import CONSTANTS, CONTEXT, METADATA
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import WASM, ObjectKind

TARGET = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"
IMPORTS = ["memory", "__indirect_function_table", "__stack_pointer", "__memory_base", "__table_base"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product by constant weights in two threads' worth of work, as a module."""
    path = tmp_path_factory.mktemp("wasm") / "model.wasm"
    x, w = relay.var("x", shape=(64, 256)), relay.const(np.arange(256 * 256, dtype="float32").reshape(256, 256))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    relay.build(mod, TARGET).export_library(path)
    return path


def sections(data: bytes) -> dict[int, wasm.Reader]:
    """The sections of a module that have a number, and 0 for the first of its own."""
    found: dict[int, wasm.Reader] = {}
    for number, part in wasm.Reader(data, 8, len(data)).parts():
        found.setdefault(number, part)
    return found


def imports(data: bytes) -> dict[str, tuple[int, ...]]:
    """The numbers after the kind of each import: what it takes is (flags, least[, most]) of a memory."""
    found = {}
    part = sections(data)[wasm.IMPORTS]
    for _ in range(part.number()):
        assert part.name() == "env"
        name, kind = part.name(), part.byte()
        count = {1: 1, 2: 0, 3: 2}[kind]
        numbers = [part.byte() for _ in range(count)]
        if kind != 3:
            numbers.append(part.number())
            numbers += [part.number() for _ in range(1 + (numbers[-1] & 1))]
        found[name] = tuple(numbers)
    return found


def test_module(library: Path) -> None:
    """It is linked dynamically, imports only memory, table and their places, and exports what a loader looks for."""
    data = library.read_bytes()
    assert sections(data)[0].name() == "dylink.0"
    assert [*imports(data)] == IMPORTS and len(imports(data)["memory"]) == 2
    assert {"__tilewright_run", CONTEXT, METADATA, CONSTANTS} <= symbol_file(data).symbols.keys()
    # The name of the temporary file that the linker wrote is not in it.
    assert b".model.wasm." not in data


def test_memory_that_threads_share(tmp_path: Path) -> None:
    """The segment is passive: the first of the threads that load a module puts it into memory."""
    func = elementwise(["float32"], "float32", 64, 4, lambda a: a + a)
    tvm.build(func, target=TARGET + ",+atomics").export_library(tmp_path / "func.wasm")
    data = (tmp_path / "func.wasm").read_bytes()
    flags, _, most = imports(data)["memory"]
    assert (flags, most) == (3, 65535)
    segments = sections(data)[wasm.DATA]
    assert [segments.number(), segments.number()] == [1, 1]
    assert b"atomics" in (symbol_file(data).content("__tilewright_target") or b"")


def test_what_a_module_holds(library: Path) -> None:
    found = symbol_file(library.read_bytes())
    facts = json.loads((found.content(METADATA) or b"").rstrip(b"\0"))
    assert facts["target"] == {"triple": "wasm32-unknown-unknown", "cpu": "generic", "features": ["simd128"]}
    weights = np.frombuffer((found.content(CONSTANTS) or b"")[: facts["constants_bytes"]], "float32")
    assert np.array_equal(np.sort(weights), np.arange(256 * 256, dtype="float32"))
    assert found.code_bytes > 500


def test_description(library: Path, tmp_path: Path) -> None:
    done = command("inspect", str(library))
    assert done.code == 0 and "target: wasm32-unknown-unknown" in done.out and "1x" not in done.err
    cut = tmp_path / "cut.wasm"
    cut.write_bytes(library.read_bytes()[:50000])
    done = command("inspect", str(cut))
    want = f"error: {cut} cannot be inspected: a section of the module is shorter than what it holds; copy or compile it again\n"
    assert (done.code, done.err) == (1, want)


def test_other_machine(library: Path) -> None:
    with pytest.raises(
        ValueError, match="model.wasm was made for WebAssembly, but this machine is x86_64; compile it again"
    ):
        tvm.runtime.load_module(library)


def test_same_bytes(library: Path, tmp_path: Path) -> None:
    """What is compiled twice is the same to the last byte."""
    x, w = relay.var("x", shape=(64, 256)), relay.const(np.arange(256 * 256, dtype="float32").reshape(256, 256))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    relay.build(mod, TARGET).export_library(tmp_path / "model.wasm")
    assert (tmp_path / "model.wasm").read_bytes() == library.read_bytes()


@pytest.mark.parametrize("size", [1, 3, 4, 5, 4096, (1 << 22) + 7])
def test_seal(size: int, tmp_path: Path) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    wasm.seal_module(str(tmp_path / "file"))
    words = np.pad(content, (0, -size % 4)).view("<u4").astype(np.uint64)
    sums = np.cumsum(words) & 0xFFFFFFFF
    want = int(sums[-1]), int(sums.sum()) & 0xFFFFFFFF
    data = (tmp_path / "file").read_bytes()
    assert data[:size] == content.tobytes()
    assert data[size:] == b"\0\x18\x0ftilewright.seal" + struct.pack("<II", *want)


def test_modules_are_sealed(library: Path) -> None:
    data = np.fromfile(library, np.uint8)
    assert data[-26:-8].tobytes() == b"\0\x18\x0ftilewright.seal"
    assert struct.unpack("<II", data[-8:].tobytes()) == wasm.checksums(data[:-26])


def test_functions(tmp_path: Path) -> None:
    func = elementwise(["float32"], "float32", 64, 4, lambda a: a + a)
    built = tvm.build(func, target=TARGET)
    built.export_library(tmp_path / "func.wasm")
    found = symbol_file((tmp_path / "func.wasm").read_bytes())
    assert "__tvm_ffi_main" in found.symbols
    target = json.loads((found.content("__tilewright_target") or b"").rstrip(b"\0"))
    assert target["features"] == ["simd128"]
    built.export_library(tmp_path / "func.o")
    assert "__tvm_ffi_main" in symbol_file((tmp_path / "func.o").read_bytes()).symbols


@pytest.mark.parametrize("size", [0, 1, 127, 128, 100_000])
def test_objects_of_data(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    data = data_object("numbers", content[:size], ObjectKind(WASM))
    assert ObjectKind.of(data) == ObjectKind(WASM)
    assert symbol_file(data).content("numbers") == content[:size]


def test_more_data_than_addresses() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return 1 << 32

    with pytest.raises(
        TVMError, match="numbers holds 4294967296 bytes, but an object for WebAssembly holds less than 4 GiB"
    ):
        data_object("numbers", Large(), ObjectKind(WASM))


def test_more_workspace_than_addresses() -> None:
    """Refused before a kernel is compiled."""
    x = relay.var("x", shape=(1,))
    large = relay.annotation.stop_fusion(relay.broadcast_to(x, (5 << 28,)))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.sum(large)))
    with pytest.raises(TVMError) as refused:
        relay.build(mod, TARGET)
    assert str(refused.value) == (
        "relay.build: the model takes 0 bytes of constants and 5368709120 bytes of workspace, but -mtriple=wasm32-unknown-unknown has"
        " addresses of 32 bits; use narrower types (relay.transform.ToMixedPrecision, --precision) or a smaller batch, or compile for a"
        " machine with wider addresses"
    )
