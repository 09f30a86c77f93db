"""Analyses of whole kernels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.codegen.device.kernels import KERNELS, elementwise
from tests.codegen.performance.kernels import copies, of_one_warp, panels, transpose
from tests.scheduling.gpu.test_products import matmul
from tilewright import tir
from tilewright.codegen.performance.kernel_report import KernelReport
from tilewright.codegen.performance.memory import AccessReport
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.support.errors import TVMError
from tilewright.target import Target

A100 = "cuda -arch=sm_80"


def report(func: tir.PrimFunc, target: str = A100, **sizes: int) -> KernelReport:
    (found,) = kernel_reports(func, target, sizes, compiled=False)
    return found


def access(found: KernelReport, buffer: str, kind: str = "load") -> AccessReport:
    (one,) = [a for a in found.accesses if a.buffer == buffer and a.kind == kind]
    return one


# --- bank conflicts


@pytest.mark.parametrize(
    ("row", "dtype", "passes"),
    [
        (32, "float32", 32),
        (33, "float32", 1),
        (34, "float32", 2),
        (36, "float32", 4),
        (32, "float16", 16),
        (34, "float16", 1),
    ],
)
def test_columns_of_a_tile(row: int, dtype: str, passes: int) -> None:
    found = report(transpose(row, dtype))
    column = access(found, "tile")
    assert (column.per_request, column.ideal, column.worst) == (passes, 1, passes)
    assert access(found, "tile", "store").per_request == 1
    assert column.requests == 1024 * 8 * 4
    assert found.conflict_free == pytest.approx(2 / (1 + passes))
    assert found.coalescing == 1
    assert found.static_shared == (31 * row + 32) * (4 if dtype == "float32" else 2)


def test_bools_are_bytes() -> None:
    found = report(elementwise("float32", 4, lambda a: a > 0.0))
    stores = access(found, "D", "store")
    assert (stores.per_request, stores.ideal) == (4, 4)  # 32 threads, 4 bytes each


def test_time_of_conflicts() -> None:
    """32 passes for each of 32768 column reads, and one for each write, on 108 multiprocessors at 1.41 GHz."""
    (bound,) = [b for b in report(transpose(32)).bounds if b.name == "shared memory"]
    assert bound.seconds == pytest.approx(33 * 32768 / (108 * 1.41e9))
    assert report(transpose(33)).bounds[0].name == "memory"


# --- coalescing


@pytest.mark.parametrize(
    ("index", "sectors", "ideal"),
    [
        (lambda b, t: b * 256 + t, 4, 4),
        (lambda b, t: (b * 256 + t) * 2, 8, 4),
        (lambda b, t: (b * 256 + t) * 8, 32, 4),
        (lambda b, t: b, 1, 1),
        (lambda b, t: b * 256 + t // 32, 1, 1),
        (lambda b, t: b * 256 + (t ^ 31), 4, 4),
        (lambda b, t: b * 256 + t + 1, 5, 4),
        (lambda b, t: t * 64 + b, 32, 4),
    ],
)
def test_loads_at_strides(index: Any, sectors: int, ideal: int) -> None:
    found = report(copies(index))
    load = access(found, "x")
    assert (load.per_request, load.ideal, load.width) == (sectors, ideal, 4)
    assert load.requests == 64 * 8
    assert load.served_bytes == 64 * 8 * sectors * 32


def test_parts_of_warps() -> None:
    """40 threads: the second warp has 8."""
    load = access(report(copies(lambda b, t: b * 40 + t, threads=40)), "x")
    assert load.requests == 64 * 2 and load.per_request == pytest.approx((4 + 4 + 1 + 2) / 2 / 2, abs=1)
    assert load.ideal == (4 + 1) / 2


def test_gather() -> None:
    """An index that depends on data is not known; the rest is."""

    def body(t: Any, b: Any) -> Any:
        return tir.BufferStore(b["out"], tir.BufferLoad(b["src"], [tir.BufferLoad(b["s"], [t])]), [t])

    found = report(of_one_warp(body, s=(32, "int32", "shared")))
    assert not found.complete and not access(found, "src").known
    assert access(found, "s").per_request == 1 and access(found, "out", "store").per_request == 4


# --- widths


def test_vectors() -> None:
    found = report(KERNELS["half_relu"]())
    assert [a.width for a in found.accesses] == [16, 16, 16]
    assert found.operations == {"scalar float16": 2 * 4096}
    assert found.unique_bytes == 3 * 2 * 4096
    assert found.intensity == pytest.approx(1 / 3)


def vector(start: Any, lanes: int, stride: int = 1, scope: str = "") -> tir.PrimFunc:
    """out[lanes t ...] = a vector of src or shared memory."""

    def body(t: Any, b: Any) -> Any:
        source = b["s"] if scope else b["src"]
        value = tir.BufferLoad(source, [tir.Ramp(start(t), tir.const(stride, "int32"), lanes)])
        to = tir.Ramp(t * lanes, tir.const(1, "int32"), lanes)
        return tir.BufferStore(b["out"], value, [to])

    return of_one_warp(body, **({"s": (4096, "float32", scope)} if scope else {}))


def test_widths_of_vectors() -> None:
    assert access(report(vector(lambda t: t * 4, 4)), "src").width == 16
    assert access(report(vector(lambda t: t * 4 + 1, 4)), "src").width == 4, "not aligned"
    assert access(report(vector(lambda t: t * 8, 4, 2)), "src").width == 4, "not neighbours"
    eight = access(report(vector(lambda t: t * 8, 8)), "src")
    assert (eight.width, eight.requests, eight.per_request) == (16, 2, 32), "two requests of half of the sectors each"
    shared = access(report(vector(lambda t: t * 4, 4, scope="shared")), "s")
    assert (shared.width, shared.per_request, shared.ideal) == (16, 4, 4)


def test_unrolled_neighbours_are_one_request() -> None:
    found = report(KERNELS["matmul"]())
    column = [a for a in found.accesses if a.buffer == "B_shared" and a.kind == "load"]
    assert [(a.width, a.per_request, a.ideal) for a in column] == [(16, 4, 4)]
    (row,) = [a for a in found.accesses if a.buffer == "A_shared" and a.kind == "load"]
    assert (row.width, row.per_request) == (4, 2), "two rows of threads read words 64 apart"


# --- instructions of warps


def test_matrix_units() -> None:
    found = report(KERNELS["wmma_matmul"]())
    assert found.operations == {"wmma float16": 2 * 64**3}
    tile = access(found, "A_shared", "wmma")
    assert (tile.per_request, tile.ideal) == (8, 4), "rows of 32 bytes: eight of them lie in 64 words"
    assert access(found, "C", "wmma store").per_request == 16


def test_ldmatrix() -> None:
    def tiles(row: int, count: int) -> AccessReport:
        def body(t: Any, b: Any) -> Any:
            return tir.Evaluate(tir.ptx_ldmatrix("float16", False, count, ".b16", b["a"].data, 0, b["s"].data, t * row))

        return access(
            report(of_one_warp(body, a=(8, "float16", "local"), s=(4096, "float16", "shared"))), "s", "ldmatrix"
        )

    assert (tiles(64, 4).per_request, tiles(64, 4).ideal) == (32, 4)
    assert tiles(72, 4).per_request == 4
    assert tiles(72, 2).per_request == 2 and tiles(72, 1).per_request == 1


def test_mma() -> None:
    def body(t: Any, b: Any) -> Any:
        c, a, f = b["c"].data, b["a"].data, b["b"].data
        return tir.Evaluate(
            tir.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a, 0, f, t % 2 * 2, c, 0, False)
        )

    kinds = {"a": (8, "float16", "local"), "b": (4, "float16", "local"), "c": (4, "float32", "local")}
    found = report(of_one_warp(body, **kinds))
    assert found.operations == {"mma float16": 2 * 16 * 8 * 16}
    (bound,) = found.bounds
    assert bound.seconds == pytest.approx(4096 / 311.9e12, rel=0.01)


def test_stores_of_sums() -> None:
    """Each request stores every second element of eight columns, in eight rows."""

    def stored(row: int, scope: str) -> AccessReport:
        def body(t: Any, b: Any) -> Any:
            to = b["s"] if scope == "shared" else b["out"]
            return tir.Evaluate(tir.mma_store("float32", 16, 16, to.access_ptr("w"), b["c"].data, 0, row))

        kinds = {"c": (8, "float32", "local"), "s": (4096, "float32", "shared")}
        found = report(of_one_warp(body, **kinds))
        assert found.complete
        return access(found, "s" if scope == "shared" else "out", "mma store")

    assert (stored(64, "global").requests, stored(64, "global").per_request, stored(64, "global").ideal) == (8, 8, 4)
    assert stored(32, "shared").per_request == 8 and stored(40, "shared").per_request == 2


def test_asynchronous_copies() -> None:
    from tilewright.ir.transform import PassContext

    with PassContext(config={"tir.use_async_copy": True}):
        found = report(KERNELS["asynchronous_pipeline"]())
    copied = [a for a in found.accesses if a.kind == "copy"]
    assert {(a.memory, a.width, a.per_request) for a in copied} == {("global", 16, 16.0), ("shared", 16, 4.0)}
    assert sum([a.requests for a in copied if a.memory == "global" and a.buffer == "A"]) == 64 * 128 * 4 / 16 / 32
    assert found.unique_bytes == (64 * 128 * 2 + 64 * 64) * 4


def test_bulk_copies() -> None:
    def body(t: Any, b: Any) -> Any:
        copy = tir.ptx_cp_async_bulk("float32", b["s"].data, 0, b["src"].data, 0, 1024, 0)
        return tir.IfThenElse(t == 0, tir.Evaluate(copy))

    found = report(of_one_warp(body, s=(256, "float32", "shared")), "cuda -arch=sm_90a")
    assert {(a.memory, a.requests, a.per_request) for a in found.accesses} == {("global", 1, 32), ("shared", 1, 8)}


def test_products_of_warpgroups() -> None:
    """A block of 128 x 128 copies 16 KiB of both operands in each of 8 steps; two warpgroups read 64 + 128 rows in 32 products."""
    func, target = matmul(256, 256, 512, "float16", "float32"), "cuda -arch=sm_90a -model=h200"
    made = scheduled(func, Target(target), KernelPlan(target, {"C.warpgroups": [128, 128, 64, 4, 128]}))
    (found,) = kernel_reports(made.mod, target, compiled=False)
    assert found.complete and found.flops == 2 * 256 * 256 * 512
    copies = {
        a.buffer: (a.requests, a.per_request) for a in found.accesses if a.kind == "bulk" and a.memory == "global"
    }
    assert copies == dict.fromkeys(("A_map", "B_map"), (4 * 8, 16384 / 32))
    reads = [(a.requests, a.per_request) for a in found.accesses if a.kind == "wgmma"]
    assert reads == [(4 * 2 * 32, 128 * 32 / 128), (4 * 2 * 32, 64 * 32 / 128)]
    assert found.unique_bytes == 2 * 256 * 512 * 2 + 256 * 256 * 4


# --- work, launches, reuse


def test_products() -> None:
    """256^3 multiply-adds; each block of 64 x 64 reads two panels, which 4 blocks have in common."""
    found = report(KERNELS["matmul"]())
    assert found.flops == 2 * 256**3
    assert found.unique_bytes == 3 * 256 * 256 * 4
    assert found.intensity == pytest.approx(2 * 256 / 12)
    assert (found.launch.grid, found.launch.block, found.launch.blocks) == ((4, 4, 1), (16, 16, 1), 16)
    assert [access(found, name).reuse for name in "AB"] == [4, 4]
    assert found.barriers == 2 and found.complete


def test_reuse_by_the_order_of_blocks() -> None:
    """216 blocks of 64 x 64 are there at once: four rows, of which the last has 24, or 27 rows of eight columns."""
    rows = report(panels(lambda b: (b // 64, b % 64)))
    assert rows.occupancy.blocks * 108 == 216
    assert [access(rows, name).reuse for name in "ab"] == [216 / 4, 216 / 64]
    swizzled = report(panels(lambda b: (b % 512 >> 3, b // 512 * 8 + (b & 7))))
    assert [access(swizzled, name).reuse for name in "ab"] == [216 / 27, 216 / 8]
    assert access(swizzled, "c", "store").reuse == 1
    assert swizzled.l2_reuse > 1.1 * rows.l2_reuse


def test_arithmetic_of_indices_does_not_count() -> None:
    def body(t: Any, b: Any) -> Any:
        row, value = tir.Var("row", "int32"), tir.Var("value", "float32")
        store = tir.BufferStore(b["out"], value * value, [row])
        return tir.LetStmt(row, t * 2 + 1, tir.LetStmt(value, b["src"][t] + 1.0, store))

    assert report(of_one_warp(body)).operations == {"scalar float32": 64}


def test_waves() -> None:
    found = report(copies(lambda b, t: b * 1024 + t, threads=1024, blocks=432))
    assert found.waves == 2 and found.occupancy.blocks == 2


def test_sizes_of_arguments() -> None:
    with pytest.raises(TVMError, match=r"the launch of kernel 'main_kernel' depends on its arguments .*sizes="):
        report(KERNELS["symbolic"]())
    found = report(KERNELS["symbolic"](), n=64, m=128)
    assert found.launch.blocks == 32 and found.unique_bytes == 2 * 64 * 128 * 4


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel(name: str) -> None:
    found = report(
        KERNELS[name](), "cuda -arch=sm_90a -model=h200", **({"n": 64, "m": 128} if name == "symbolic" else {})
    )
    assert found.device == "h200" and found.seconds > 0 and found.accesses
    assert all([a.per_request >= a.ideal for a in found.accesses])
    assert json.loads(json.dumps(found.facts()))["name"] == "main_kernel"


def test_targets_without_an_analysis() -> None:
    with pytest.raises(TVMError, match="kernels are analysed for the targets cuda and nvptx, but the target is opencl"):
        report(KERNELS["add"](), "opencl")
    with pytest.raises(TVMError, match="no loop is bound to a thread axis"):
        report(tir.PrimFunc([], tir.Evaluate(tir.const(0, "int32"))))
