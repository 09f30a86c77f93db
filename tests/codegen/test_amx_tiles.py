"""Tile registers: the interpreter's model and its errors, and each intrinsic against its description, interpreted and compiled."""

from __future__ import annotations

import ctypes
import re
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.amx import SAPPHIRE, assembly, run_emulated
from tilewright import te, tir
from tilewright.codegen import native
from tilewright.codegen.interp import InterpError, run
from tilewright.codegen.interp.tile_registers import Tiles
from tilewright.codegen.interp.values import Pointer, Storage
from tilewright.codegen.llvm.native.tiles import permission
from tilewright.runtime import packed_func
from tilewright.runtime.packed_func import global_func
from tilewright.target import Target
from tilewright.target.cpu import host_cpu
from tilewright.tir.tensor_intrin.amx import KINDS, SCOPE, Tile, configuration

Array = np.ndarray[Any, Any]


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    return rng.integers(*((0, 256) if dtype == "uint8" else (-128, 128)), shape).astype(dtype)


def product(tile: Tile, rows: int, columns: int, steps: int) -> tir.PrimFunc:
    """A product of matrices packed in panels of the tile's columns, tensorized by hand."""
    kind = KINDS[tile.kind]
    a_type, b_type, c_type = kind.dtypes
    nr, g = tile.columns, kind.group
    a, b = te.placeholder((rows, steps * g), a_type), te.placeholder((columns // nr, steps, nr, g), b_type)
    k, p = te.reduce_axis((0, steps), name="k"), te.reduce_axis((0, g), name="g")
    out = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k * g + p].astype(c_type) * b[j // nr, k, j % nr, p].astype(c_type), axis=[k, p]),
        name="C",
    )
    sch = tir.Schedule(te.create_prim_func([a, b, out]))
    block = sch.get_block("C")
    i, j, ko, kg = sch.get_loops(block)
    io, ii = sch.split(i, [None, tile.rows])
    jo, ji = sch.split(j, [None, nr])
    ko, ki = sch.split(ko, [None, tile.steps])
    sch.reorder(io, jo, ko, ii, ji, ki, kg)
    copy = sch.cache_write(block, 0, SCOPE)
    sch.reverse_compute_at(copy, jo)
    init = sch.decompose_reduction(block, ko)
    sch.tensorize(sch.get_loops(init)[-2], tile.name("fill"))
    sch.tensorize(ii, tile.name("dot"))
    sch.tensorize(sch.get_loops(copy)[2], tile.name("store"))
    return sch.mod["main"]


@pytest.mark.parametrize(
    "tile, rows, columns, steps",
    [
        (Tile("bf16", 32, 32, 16), 64, 64, 32),
        (Tile("bf16", 29, 16, 9), 58, 16, 18),
        (Tile("bf16", 1, 32, 16), 1, 32, 16),
        (Tile("u8s8", 7, 32, 16), 7, 64, 32),
        (Tile("s8s8", 17, 16, 5), 17, 32, 5),
    ],
)
def test_matrix_tiles(tile: Tile, rows: int, columns: int, steps: int) -> None:
    func, kind = product(tile, rows, columns, steps), KINDS[tile.kind]
    a = random((rows, steps * kind.group), kind.dtypes[0])
    b = random((columns // tile.columns, steps, tile.columns, kind.group), kind.dtypes[1], 1)
    plain = b.transpose(1, 3, 0, 2).reshape(steps * kind.group, columns)
    want = a.astype("float64") @ plain.astype("float64")
    found = np.zeros((rows, columns), kind.dtypes[2]), np.zeros((rows, columns), kind.dtypes[2])
    run(func, [a, b, found[0]], check_races=True)
    run_emulated(func, Target(SAPPHIRE), a, b, found[1])
    sizes = np.abs(a.astype("float64")) @ np.abs(plain.astype("float64"))
    for each in found:
        assert (np.abs(each - want) <= (steps * 2 * 2.0**-23 * sizes if tile.kind == "bf16" else 0)).all()
    text = assembly(func, Target(SAPPHIRE))
    assert {"bf16": "tdpbf16ps", "u8s8": "tdpbusd", "s8s8": "tdpbssd"}[tile.kind] in text


def test_what_instructions_are_emitted() -> None:
    text = assembly(product(Tile("bf16", 32, 32, 16), 64, 64, 64), Target(SAPPHIRE))
    for want in ("ldtilecfg", "tileloadd", "tdpbf16ps\t%tmm7, %tmm5, %tmm3", "tilestored\t%tmm3", "tilerelease"):
        assert want in text
    # The sums are nowhere in memory but where they end.
    assert "(%rsp)" not in text and "(%rsp," not in text


def program(*calls: tuple[Any, ...], size: int = 64) -> tir.PrimFunc:
    """Tile instructions one after another; an argument (buffer number, element) is an address in one of two buffers of bytes."""
    buffers = [tir.decl_buffer((size,), "uint8", name) for name in ("X", "Y")]
    body = []
    for name, *args in calls:
        values = []
        for a in args:
            if isinstance(a, tuple):
                values.append(tir.address_of(tir.BufferLoad(buffers[a[0]], (tir.const(a[1], "int32"),))))
            else:
                values.append(tir.const(a, "int64" if name.endswith("64") and a is args[-1] else "int8"))
        body.append(tir.Evaluate(tir.call_llvm_intrin("void", f"llvm.x86.{name}", *values)))
    return tir.PrimFunc(buffers, tir.stmt_seq(*body))


def config(**shapes: tuple[int, int]) -> Array:
    return configuration({int(n[1:]): shape for n, shape in shapes.items()})


@pytest.mark.parametrize(
    "calls, shapes, message",
    [
        ([("tilezero", 0)], {}, "tilezero uses tile 0, but no configuration is loaded"),
        ([("ldtilecfg", (0, 0)), ("tilezero", 3)], {"t0": (1, 4)}, "tilezero uses tile 3, but tile 3 has no rows"),
        ([("ldtilecfg", (0, 0)), ("tilerelease",), ("tilezero", 0)], {"t0": (1, 4)}, "no configuration is loaded"),
        ([("ldtilecfg", (0, 0))], {"t0": (17, 4)}, "tile 0 cannot have 17 rows of 4 bytes"),
        ([("ldtilecfg", (0, 0))], {"t9": (1, 4)}, "must be of palette 1, begin at row 0, name eight tiles at most"),
        ([("ldtilecfg", (0, 8))], {"t0": (1, 4)}, "bytes 8 to 71 are outside of X, which has 64"),
        (
            [("ldtilecfg", (0, 0)), ("tileloadd64", 0, (1, 0), 32)],
            {"t0": (4, 16)},
            "row 2 of tile 0: bytes 64 to 79 are outside of Y, which has 64",
        ),
        (
            [("ldtilecfg", (0, 0)), ("tdpbusd", 0, 4, 6)],
            {"t0": (2, 8), "t4": (2, 16), "t6": (3, 8)},
            "tdpbusd: tiles 4, 6 and 0 of 2 rows of 16 bytes, 3 rows of 8 bytes, 2 rows of 8 bytes do not meet",
        ),
        (
            [("ldtilecfg", (0, 0)), ("tdpbf16ps", 0, 4, 4)],
            {"t0": (2, 8), "t4": (2, 8)},
            "tdpbf16ps takes three tiles, but is given 0, 4 and 4",
        ),
    ],
)
def test_what_hardware_would_trap(calls: Any, shapes: Any, message: str) -> None:
    with pytest.raises(InterpError, match=re.escape(message)):
        run(program(*calls), [config(**shapes), np.zeros(64, np.uint8)])


def test_memory_that_was_not_written_is_no_operand() -> None:
    local = tir.decl_buffer((64,), "uint8", "L", scope="local")
    given = tir.decl_buffer((64,), "uint8", "X")
    places = [tir.address_of(tir.BufferLoad(b, (tir.const(0, "int32"),))) for b in (given, local)]
    load = tir.call_llvm_intrin("void", "llvm.x86.tileloadd64", tir.const(0, "int8"), places[1], tir.const(16, "int64"))
    body = tir.SeqStmt(
        (tir.Evaluate(tir.call_llvm_intrin("void", "llvm.x86.ldtilecfg", places[0])), tir.Evaluate(load))
    )
    body = tir.Allocate(local.data, "uint8", (64,), tir.const(True, "bool"), body)
    with pytest.raises(InterpError, match="uninitialised read: row 0 of tile 0 lies in L"):
        run(tir.PrimFunc([given], body), [config(t0=(4, 16))])


def multiplied(instruction: str, a: Array, b: Array, c: Array) -> Array:
    """C after one instruction by the model."""
    tiles = Tiles()
    steps = a.nbytes // len(a) // 4
    shapes = {0: (len(c), 4 * c.shape[1]), 4: (len(a), 4 * steps), 6: (steps, 4 * c.shape[1])}

    def at(x: Array) -> Pointer:
        return Pointer(Storage("x", x.reshape(-1), None))

    tiles.configure(at(configuration(shapes)))
    for n, x in ((0, c), (4, a), (6, b)):
        tiles.load(n, at(x), x.nbytes // shapes[n][0])
    getattr(tiles, instruction)(0, 4, 6)
    out = np.zeros_like(c)
    tiles.store(0, at(out), out.nbytes // len(out))
    return out


def test_sums_of_bytes_wrap_around() -> None:
    a, b = np.array([[200, 2, 3, 255]], np.uint8), np.array([[1, -128, 5, 127]], np.int8)
    c = np.array([[2**31 - 1]], np.int32)
    assert multiplied("dot_bytes", a, b, c)[0, 0] == 2**31 - 1 + 200 - 256 + 15 + 255 * 127 - 2**32
    assert multiplied("dot_signed_bytes", a, b, 0 * c)[0, 0] == (200 - 256) - 256 + 15 - 127


def test_pairs_of_bfloat16_are_summed_apart() -> None:
    """Even and odd products have sums of their own, which begin with zero; denormal numbers are zeros."""
    bf = ml_dtypes.bfloat16
    a = np.array([[1, 2.0**-24, 1, 2.0**-24]], bf)
    b = np.array([[1, 1], [1, 1]], bf).reshape(2, 2)
    c = np.array([[2.0**24]], np.float32)
    # 2 ** 24 + 1 + 1 one by one stays 2 ** 24 in float32.
    assert multiplied("dot_bfloats", a, b, c)[0, 0] == 2.0**24 + 2
    tiny = np.array([[1e-39, 1]], bf)
    one = np.array([[1, 1]], bf)
    assert multiplied("dot_bfloats", tiny, one, 0 * c)[0, 0] == 1
    assert multiplied("dot_bfloats", np.array([[2.0**-100, 0]], bf), np.array([[2.0**-30, 0]], bf), 0 * c)[0, 0] == 0


def test_names_say_what_an_intrinsic_is() -> None:
    assert Tile("bf16", 14, 16, 8, 2, 2).name("dot") == "amx_bf16_dot_14x16x8_2x2s1x1"
    found = tir.TensorIntrin.get("amx_bf16_dot_14x16x8_2x2s1x1")
    assert found is tir.TensorIntrin.get("amx_bf16_dot_14x16x8_2x2s1x1")
    for name in (
        "amx_bf16_dot_33x16x8",
        "amx_bf16_dot_16x16x17",
        "amx_fp8_dot_16x16x8",
        "amx_bf16_dot_32x16x8_1x2s1x1",
    ):
        assert tir.TensorIntrin.get(name, allow_missing=True) is None


@pytest.mark.llvm
def test_sums_in_registers_are_not_in_memory() -> None:
    """All blocks that use them must be tensorized."""
    x = te.placeholder((16, 16), "float32")
    sch = tir.Schedule(te.create_prim_func([x, te.compute((16, 16), lambda i, j: x[i, j] + 1.0, name="C")]))
    sch.cache_write(sch.get_block("C"), 0, SCOPE)
    with pytest.raises(tvm.TVMError, match="is in registers, but is read or written in memory; tensorize every block"):
        tvm.build(sch.mod["main"], target=SAPPHIRE)


@pytest.mark.llvm
def test_libraries_ask_the_system_for_tiles(tmp_path: Any) -> None:
    """A library that another program loads asks when it is loaded; it is no error where there are none, for nothing has run yet."""
    func = product(Tile("bf16", 16, 16, 16), 16, 16, 16)
    path = tmp_path / "product.so"
    tvm.build(func, target=SAPPHIRE).export_library(str(path))
    ctypes.CDLL(str(path))
    # mov eax, 158; mov edi, ARCH_REQ_XCOMP_PERM; mov esi, 18; syscall
    asks = b"\xb8\x9e\0\0\0", b"\xbf\x23\x10\0\0", b"\xbe\x12\0\0\0", b"\x0f\x05"
    assert all([part in path.read_bytes() for part in asks])
    assert permission(Target(SAPPHIRE)) and not permission(Target("llvm -mcpu=znver4"))
    assert not permission(Target("llvm -mcpu=sapphirerapids -mtriple=x86_64-apple-macosx"))


@pytest.mark.llvm
def test_an_object_with_tiles_is_linked_into_another_library(tmp_path: Any) -> None:
    """It holds the request for tiles, but not the facts of a target, which the library has itself."""
    product_of_tiles = product(Tile("bf16", 16, 16, 16), 16, 16, 16).with_attr("global_symbol", "product")
    tvm.build(product_of_tiles, target=SAPPHIRE).save(str(tmp_path / "product.o"))
    x = te.placeholder((16,), "float32")
    whole = tvm.build(te.create_prim_func([x, te.compute((16,), lambda i: x[i] + 1.0)]), target=SAPPHIRE)
    whole.import_module(tvm.runtime.load_static_library(tmp_path / "product.o", ["product"]))
    whole.export_library(tmp_path / "both.so")
    assert b"\xbe\x12\0\0\0" in (tmp_path / "both.so").read_bytes()


@pytest.mark.llvm
def test_what_the_system_refuses_is_an_error() -> None:
    """Before anything runs; here as on a machine whose processor has tiles, which its system does not keep."""
    refused = str(global_func("runtime.EnableAMX")())
    if "amx-tile" in host_cpu().features:
        assert refused == ""
        return
    functions = {"runtime.MissingCPUFeatures": lambda *_: [], "runtime.EnableAMX": lambda: refused}
    asked = [mock.patch.object(room, "global_func", functions.__getitem__) for room in (packed_func, native)]
    with asked[0], asked[1]:
        module = tvm.build(product(Tile("bf16", 16, 16, 16), 16, 16, 16), target=SAPPHIRE)
    with pytest.raises(AttributeError) as error:
        module["main"]()
    assert refused
    assert str(error.value) == (
        "the module's function `main` cannot be called here: the system does not let this process have tile registers"
        f" (AMX): {refused}; export the module and load it on such a machine, or compile for this one"
    )
