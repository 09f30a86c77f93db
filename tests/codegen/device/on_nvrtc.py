"""CUDA C compiled by NVRTC (`make test-cuda-source`): kernels, random programs, instructions of inline assembly."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tilewright as tvm
from tests.codegen.device.kernels import KERNELS, ONLY_CUDA, built, elementwise, source
from tests.codegen.device.random_kernels import programs
from tests.codegen.interp.test_warpgroups import BOXED, TYPES, by_registers, copy_of_a_box
from tests.meta_schedule.test_tensor_core import product, rule, space_of
from tilewright import tir
from tilewright.codegen.backend import back_end_of
from tilewright.codegen.source.cuda.nvrtc import nvrtc
from tilewright.contrib import nvcc
from tilewright.support.errors import TVMError
from tilewright.target import Target

ARCHES = ("sm_75", "sm_80", "sm_90a", "sm_100a")


def ptx_of(name: str, arch: str) -> str:
    """The PTX of a kernel."""
    module = built(name, f"cuda -arch={arch}").imported_modules[0]
    compiler = nvrtc()
    assert compiler is not None
    return compiler.compile(str(module.get_source()), arch.replace("sm_", "compute_")).decode()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ARCHES)
def test_kernels(name: str, arch: str) -> None:
    if name == "asynchronous_pipeline" and arch == "sm_75":
        with pytest.raises(TVMError, match=r"cp\.async needs sm_80, but the target is for sm_75"):
            source(name, f"cuda -arch={arch}")
        return
    text = ptx_of(name, arch)
    assert f".target {arch}" in text and ".entry" in text


def test_instructions() -> None:
    """What the texts become: vectors are loaded as 16 bytes, matrix units and asynchronous copies are used."""
    assert "ld.global.nc.v4.f32" in ptx_of("add", "sm_80")
    assert re.search(r"ld\.global(\.nc)?\.v4\.[buf]32", ptx_of("half_relu", "sm_80"))
    assert "dp4a.s32.s32" in ptx_of("int8_dot", "sm_80")
    assert "wmma.mma.sync" in ptx_of("wmma_matmul", "sm_80")
    text = ptx_of("asynchronous_pipeline", "sm_80")
    # A step waits for the tiles of the one before, and then copies the next ones.
    assert "cp.async.cg.shared.global" in text and "cp.async.wait_group 0" in text
    assert "shfl.sync.down" in ptx_of("sum_by_shuffles", "sm_80")


@pytest.mark.parametrize("first", range(0, 1200, 200))
def test_random_programs(first: int) -> None:
    target = Target("cuda -arch=sm_80")
    back_end: Any = back_end_of(target)
    for seed, kernels in programs(first, 200, target):
        try:
            text = back_end.source(kernels, target)
        except TVMError as error:
            assert "storage of kernels has a constant size" in str(error), seed
            continue
        assert back_end.form(back_end.image(text, target)) == "ptx", seed


MATH = """exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid tanh sinh cosh tan sin cos asin acos atan asinh acosh atanh erf
    floor ceil round trunc nearbyint isnan isinf isfinite""".split()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_mathematics(dtype: str, lanes: int) -> None:
    def compute(a: Any, b: Any) -> Any:
        total = tir.pow(a, b) + tir.atan2(a, b) + tir.fmod(a, b) + tir.max(a, b) * tir.min(a, b) + tir.hypot(a, b)
        for name in MATH:
            total += getattr(tir, name)(a).astype(dtype)
        return tir.Select(a < b, total / b, tir.abs(total))

    tvm.build(elementwise(dtype, lanes, compute, 2), target="cuda -arch=sm_80")
    if dtype != "float64":
        tvm.build(elementwise(dtype, lanes, compute, 2), target="cuda -arch=sm_80 -fast-math=1")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_integers(dtype: str, lanes: int) -> None:
    def compute(a: Any, b: Any) -> Any:
        if dtype == "bool":
            return tir.Or(tir.And(a, b), tir.Not(a))
        total = a + b * a - tir.max(a, b) + tir.min(a, b)
        total += tir.floordiv(a, b) + tir.floormod(a, b) + tir.truncdiv(a, b) + tir.truncmod(a, b)
        total += (a & b) | (a ^ b) + (a << tir.const(1, dtype)) + (b >> tir.const(1, dtype)) + ~a
        total += tir.popcount(a) + a.astype("float32").astype(dtype) + a.astype("float16").astype(dtype)
        return tir.Select(tir.And(a < b, b != a), total, tir.if_then_else(a > b, a, b) if lanes == 1 else b)

    tvm.build(elementwise(dtype, lanes, compute, 2), target="cuda -arch=sm_80")


def one_warp(*calls: Any, arch: str = "sm_90a", **storage: tuple[int, str, str]) -> str:
    """A kernel of one warp that makes calls on storage: name -> (elements, dtype, scope). calls: functions of the data variables."""
    out = tir.decl_buffer((1024,), "float32", "out")
    buffers = {name: tir.decl_buffer((n,), dtype, name, scope=scope) for name, (n, dtype, scope) in storage.items()}
    data = {"out": out.data, **{name: b.data for name, b in buffers.items()}}
    body: Any = tir.stmt_seq(*[tir.Evaluate(call(**data)) for call in calls])
    for b in buffers.values():
        body = tir.Allocate(b.data, b.dtype, b.shape, tir.const(True, "bool"), body)
    axis = tir.IterVar(None, tir.Var("tx", "int32"), 1, "threadIdx.x")
    func = tir.PrimFunc([out], tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", 32), body))
    return str(tvm.build(func, target=f"cuda -arch={arch}").imported_modules[0].get_source())


MMA = [
    ("m16n8k16", "fp16", "fp16", "fp32", (8, "float16"), (4, "float16"), (4, "float32")),
    ("m16n8k8", "fp16", "fp16", "fp16", (4, "float16"), (2, "float16"), (4, "float16")),
    ("m16n8k16", "bf16", "bf16", "fp32", (8, "bfloat16"), (4, "bfloat16"), (4, "float32")),
    ("m16n8k8", "tf32", "tf32", "fp32", (4, "float32"), (2, "float32"), (4, "float32")),
    ("m16n8k32", "int8", "int8", "int32", (16, "int8"), (8, "int8"), (4, "int32")),
    ("m8n8k4", "fp64", "fp64", "fp64", (1, "float64"), (1, "float64"), (2, "float64")),
]


@pytest.mark.parametrize("case", MMA, ids=["-".join(c[:4]) for c in MMA])
def test_mma(case: Any) -> None:
    shape, a_type, b_type, c_type, *parts = case
    kinds = {n: (size, dtype, "local") for n, (size, dtype) in zip("abc", parts, strict=True)}
    text = one_warp(
        lambda a, b, c, out: tir.ptx_mma(
            parts[2][1], shape, "row", "col", a_type, b_type, c_type, a, 0, b, 0, c, 0, False
        ),
        **kinds,
    )
    assert f"mma.sync.aligned.{shape}.row.col." in text


def test_other_instructions() -> None:
    text = one_warp(
        lambda a, c, tile, out: tir.mma_fill("float32", 8, c, 0),
        lambda a, c, tile, out: tir.ptx_ldmatrix("float16", False, 4, ".b16", a, 0, tile, 0),
        lambda a, c, tile, out: tir.ptx_ldmatrix("float16", True, 2, ".b16", a, 0, tile, 8),
        lambda a, c, tile, out: tir.mma_store("float32", 16, 16, out, c, 0, 16),
        lambda a, c, tile, out: tir.create_barriers(2),
        lambda a, c, tile, out: tir.ptx_init_barrier_thread_count(0, 32),
        lambda a, c, tile, out: tir.ptx_cp_async_bulk("float16", tile, 0, out, 0, 128, 0),
        lambda a, c, tile, out: tir.ptx_arrive_barrier_expect_tx(0, 128),
        lambda a, c, tile, out: tir.ptx_cp_async_barrier(1),
        lambda a, c, tile, out: tir.ptx_arrive_barrier(1),
        lambda a, c, tile, out: tir.ptx_wait_barrier(0),
        a=(8, "float16", "local"), c=(8, "float32", "local"), tile=(1024, "float16", "shared"),
    )  # fmt: skip
    for part in (
        "ldmatrix_x4(",
        "ldmatrix_x2_trans(",
        "mbarrier_init(&barriers[0], 32);",
        "cp_async_bulk(",
        "mbarrier_wait(",
    ):
        assert part in text


def machine_code(func: tir.PrimFunc, arch: str = "sm_90a") -> str:
    """The source of a kernel, which the assembler takes."""
    source = str(tvm.build(func, target=f"cuda -arch={arch}").imported_modules[0].get_source())
    compiler = nvrtc()
    assert compiler is not None and compiler.compile(source, arch, form="cubin")[:4] == b"\x7fELF"
    return source


@pytest.mark.parametrize(("dtype", "sums"), TYPES)
def test_products_of_warpgroups(dtype: str, sums: str) -> None:
    for n in (8, 64, 256):
        assert f"wgmma.mma_async.sync.aligned.m64n{n}k" in machine_code(by_registers(dtype, sums, n))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("shape", BOXED)
def test_copies_of_boxes(shape: tuple[int, ...], arch: str) -> None:
    source = machine_code(copy_of_a_box(shape)[0], arch)
    assert f"cp.async.bulk.tensor.{len(shape)}d." in source and "const __grid_constant__ tensor_map" in source


def test_warpgroups_of_other_architectures() -> None:
    with pytest.raises(TVMError, match="wgmma needs -arch=sm_90a, but the target is for sm_90"):
        tvm.build(by_registers("float16", "float32"), target="cuda -arch=sm_90")
    with pytest.raises(TVMError, match="mbarrier_fence_init needs sm_90, but the target is for sm_80"):
        tvm.build(copy_of_a_box((5, 16))[0], target="cuda -arch=sm_80")


def test_compile_cuda() -> None:
    code = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] += 1.0f; }'
    assert b".entry f" in nvcc.compile_cuda(code, "ptx", "sm_80")
    assert nvcc.compile_cuda(code, "cubin", "sm_80")[:4] == b"\x7fELF"
    with pytest.raises(TVMError, match="refused the source"):
        nvcc.compile_cuda("float", "ptx", "sm_80")
    compiler = nvrtc()
    assert compiler is not None and {75, 80, 90} <= set(compiler.architectures())
    with pytest.raises(TVMError, match="it compiles for .*80"):
        compiler.compile(code, "compute_20")


def test_designs_on_matrix_units() -> None:
    """What MultiLevelTilingTensorCore makes of a product, with dynamic shared memory and copies ahead of their use."""
    for given in ({}, {"use_software_pipeline": True}):
        space, random = space_of(product(k=128), rule(**given)), Random(0)
        for _ in range(3):
            schedule = space.schedule(space.draw(random))
            for asynchronous in (False, True):
                with tvm.transform.PassContext(config={"tir.use_async_copy": asynchronous}):
                    built = tvm.build(schedule.mod, target="cuda -arch=sm_80")
                assert "wmma::mma_sync(" in built.imported_modules[0].get_source()


def assembled(ptx: str, path: Path) -> None:
    """AssertionError if ptxas refuses PTX."""
    (path / "k.ptx").write_text(ptx)
    folders = [Path(p) / "cuda_nvcc" / "bin" for p in importlib.import_module("nvidia").__path__]
    ptxas = next(f / "ptxas" for f in folders if (f / "ptxas").exists())
    done = subprocess.run(
        [ptxas, "-arch=sm_80", path / "k.ptx", "-o", path / "k.cubin"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_ptx_of_llvm(tmp_path: Path) -> None:
    """The target nvptx: kernels and random programs."""
    for name in KERNELS:
        if name not in (*ONLY_CUDA, "int8_dot"):
            assembled(source(name, "nvptx -mcpu=sm_80"), tmp_path)
    target, count = Target("nvptx -mcpu=sm_80"), 0
    back_end: Any = back_end_of(target)
    for _, kernels in programs(0, 200, target):
        try:
            text = back_end.source(kernels, target)
        except TVMError as error:
            assert "a GPU has no such functions" in str(error)
            continue
        assembled(text, tmp_path)
        count += 1
    assert count > 50
