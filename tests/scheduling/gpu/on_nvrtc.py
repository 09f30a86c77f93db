"""Kernels of the rules for GPUs, compiled by NVRTC (`make test-cuda-source`): instructions in their PTX, for each architecture."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tvm
from tests.codegen.performance.on_nvrtc import within_limits
from tests.scheduling.gpu.kernels import KERNELS
from tests.scheduling.gpu.models import MODELS
from tests.scheduling.gpu.test_attention import attention
from tests.scheduling.gpu.test_convolutions import convolution
from tests.scheduling.gpu.test_kernels import unscheduled
from tests.scheduling.gpu.test_products import matmul
from tests.scheduling.gpu.test_rows import LENGTHS, ROWS, rows
from tests.scheduling.gpu.test_warpgroups import LARGE, SMALL, target_of
from tests.scheduling.gpu.unknown_sizes import OPERATORS, SUMS, kernel, sizes
from tilewright import relay, te, tir
from tilewright.codegen.performance.instructions import step_of
from tilewright.codegen.source.cuda.nvrtc import nvrtc
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.relay.backend.kernel_reports import model_kernel_reports
from tilewright.scheduling.gpu.product_tiles import ProductTile, registers_of, resident_blocks
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target

HOPPER = "cuda -arch=sm_90a -model=h200"


def ptx_of(func: tir.PrimFunc, arch: str, given: dict[str, Any] | None = None) -> str:
    target = f"cuda -arch={arch}"
    plan = KernelPlan(target, given)
    made = scheduled(func, Target(target), plan)
    assert not plan.fallbacks, plan.fallbacks
    source = str(tvm.build(made.mod, target=target).imported_modules[0].get_source())
    compiler = nvrtc()
    assert compiler is not None
    return compiler.compile(source, arch.replace("sm_", "compute_")).decode()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_instructions_of_a_step(arch: str) -> None:
    """A warp's tile of 64 x 32 over 32 steps of k: 2 * 4 * 2 * 2 products, 2 * (4 + 2) loads, 2 + 2 copies of a thread; no local memory."""
    tile = {"C.tile": [128, 128, 32, 64, 32, 3], "C.parts": 1}
    text = ptx_of(matmul(4096, 4096, 4096, "float16", "float32", epilogue=True), arch, tile)
    loop = max(
        re.split(r"\n\$L__BB0_\d+:", text), key=lambda part: part.count("mma.sync") if "cp.async.wait" in part else -1
    )
    loop = loop[: loop.index("bra")]
    assert (loop.count("mma.sync.aligned.m16n8k16"), loop.count("ldmatrix.sync"), loop.count("cp.async.cg")) == (
        32,
        12,
        4,
    )
    assert loop.count("bar.sync") == loop.count("cp.async.wait_group") == 1
    assert not re.search(r"\b(ld|st)\.local", text) and not re.search(r"\b(div|rem)\.", text)
    assert "ld.global.nc.v2" in text or "ld.global.v2" in text


ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100a")
FIRST = {"bfloat16": 80, "tf32": 80, "float8_e4m3fn": 89, "float8_e5m2": 89}
"""Type of factors -> the first architecture whose matrix units multiply it."""


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize(
    "types",
    [
        ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32"),
        ("float32", "float32"), ("tf32", "float32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
    ],
)  # fmt: skip
def test_types(arch: str, types: tuple[str, str], trans: bool) -> None:
    """Machine code of products of every type on every architecture: on matrix units where it has them, without local memory."""
    factors, sums = types
    own = "float32" if factors == "tf32" else factors
    target = f"cuda -arch={arch}{' -allow-tf32=1' if factors == 'tf32' else ''}"
    has = factors != "float32" and int(arch[3:].rstrip("a")) >= FIRST.get(factors, 75)
    if not has and factors != "float32":
        return
    made = scheduled(matmul(300, 328, 640, own, sums, trans, trans), Target(target), KernelPlan(target))
    reports = kernel_reports(made.mod, target)
    assert any(["mma " in name for r in reports for name in r.operations]) == has
    for report in reports:
        assert report.resources is not None and not report.resources.spill_stores and not report.resources.stack
        assert report.occupancy.blocks >= 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions(arch: str, layout: str) -> None:
    text = ptx_of(convolution(layout, 2, 28, 28, 64, 128, 3, 2, 1), arch)
    assert "mma.sync" in text
    assert not re.search(r"\b(ld|st)\.local", text)


TILES: dict[str, tuple[str, tuple[Any, ...], list[int]]] = {
    # What the compiler kept in memory, to make room for more blocks than the rule counts on.
    "3x3 without asynchronous copies": ("sm_75", (4, 14, 14, 64, 64, 3, 1, 1), [64, 32, 64, 32, 16, 1]),
    "many copies of a thread": ("sm_75", (4, 14, 14, 64, 64, 3, 1, 1), [128, 32, 64, 64, 32, 1]),
    "1x1": ("sm_80", (1, 8, 8, 512, 128, 1), [64, 32, 64, 32, 32, 4]),
}


@pytest.mark.parametrize("name", TILES)
def test_registers_are_those_that_the_rule_counts_on(name: str) -> None:
    arch, sizes, tile = TILES[name]
    target = Target(f"cuda -arch={arch}")
    text = source_of(convolution("NHWC", *sizes), str(target), {"conv2d_nhwc.tile": tile, "conv2d_nhwc.parts": 1})
    compiler = nvrtc()
    assert compiler is not None
    (used,) = compiler.resources(text, arch).values()
    assert used.spill_stores == used.stack == 0
    chosen = ProductTile(*tile)
    needed = registers_of(chosen, 2)
    assert 0.75 * needed <= used.registers <= 1.25 * needed
    found = target.gpu.occupancy(chosen.threads, used.registers, chosen.shared_bytes(2))
    assert found.blocks >= resident_blocks(chosen, 2, target.gpu)


def source_of(func: tir.PrimFunc, target: str, given: dict[str, Any]) -> str:
    plan = KernelPlan(target, given)
    made = scheduled(func, Target(target), plan)
    assert not plan.fallbacks and not plan.unfit(), (plan.fallbacks, plan.unfit())
    return str(tvm.build(made.mod, target=target).imported_modules[0].get_source())


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_warpgroups(name: str) -> None:
    """The assembler takes all forms of wgmma and of copies of tiles."""
    func, tile = {**SMALL, **LARGE}[name]
    compiler = nvrtc()
    assert compiler is not None
    text = source_of(func, target_of(name), {"C.warpgroups": tile})
    assert compiler.compile(text, "sm_90a", form="cubin")[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "tile", [[128, 256, 64, 4, 128], [128, 128, 64, 6, 128], [192, 128, 64, 5, 128], [64, 256, 64, 5, 128]]
)
def test_a_large_product_on_warpgroups(tile: list[int]) -> None:
    """A step of a warpgroup: four products of 16 of k; sums stay in registers, which are those of a block of this size. The compiler
    reports no products that it makes wait for each other."""
    func = matmul(4096, 4096, 4096, "float16", "float32", epilogue=True)
    text = source_of(func, HOPPER, {"C.warpgroups": tile})
    compiler = nvrtc()
    assert compiler is not None
    (used,) = compiler.resources(text, "sm_90a").values()
    assert used.spill_stores == used.spill_loads == used.stack == 0
    assert used.registers <= 65536 // (tile[0] * 2 + 128)
    step = step_of(compiler.compile(text, "compute_90a").decode())
    assert step is not None and step.counts["matrix"] == 4 and "local" not in step.counts
    with compiler._compiled(text, "sm_90a", ["--ptxas-options=-v"]) as program:
        assert "serialized" not in compiler._log(program)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_iterators(arch: str) -> None:
    """A convolution's step computes less for its copies where addresses and conditions are computed before all steps."""
    func, target = convolution("NHWC", 32, 28, 28, 128, 128, 3, 1, 1), f"cuda -arch={arch}"
    tile = {"conv2d_nhwc.tile": [128, 64, 32, 64, 64, 4], "conv2d_nhwc.parts": 1}
    counts = {}
    compiler = nvrtc()
    assert compiler is not None
    for form in ("analytic", "optimized"):
        text = source_of(func, target, {**tile, "conv2d_nhwc.iterators": form})
        step = step_of(compiler.compile(text, arch.replace("sm_", "compute_")).decode())
        assert step is not None and step.counts["copy"] == 12 and step.counts["matrix"] == 64
        (used,) = compiler.resources(text, arch).values()
        counts[form] = step.counts["integer"], used.registers
        assert used.spill_stores == 0
    assert counts["optimized"][0] < 0.75 * counts["analytic"][0], counts


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels(arch: str, name: str) -> None:
    """Machine code that fits, and keeps nothing in memory that belongs into registers."""
    target = Target(f"cuda -arch={arch}")
    plan = KernelPlan(target)
    func, _, _ = unscheduled(name, plan)
    made = scheduled(func, target, plan)
    assert not plan.fallbacks, plan.fallbacks
    for report in kernel_reports(made.mod, target):
        within_limits(report, target)
        assert report.resources is not None and report.resources.spill_stores == 0, report.name


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_unknown_sizes(arch: str, name: str) -> None:
    target = Target(f"cuda -arch={arch}")
    plan = KernelPlan(target)
    made = scheduled(kernel(name, plan), target, plan)
    assert not plan.fallbacks, plan.fallbacks
    for report in kernel_reports(made.mod, target, sizes(name)):
        within_limits(report, target)
        assert report.resources is not None
        # Threads that sort lines by digits count these in memory of their own.
        assert report.resources.spill_stores == 0 or name not in SUMS, report.name


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("length", [*LENGTHS, 3072])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_length_have_no_local_memory(name: str, length: int, arch: str) -> None:
    target = Target(f"cuda -arch={arch}")
    (report,) = kernel_reports(scheduled(rows(name, length, 512), target, KernelPlan(target)).mod, target)
    assert report.resources is not None and report.resources.spill_stores == report.resources.stack == 0


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("depth", [32, 64, 96, 128, 256])
def test_attention(arch: str, depth: int) -> None:
    """All of attention in one kernel, whose scores, weights and sums are in registers."""
    shape = (2, 16, 512, depth)
    plan = KernelPlan(f"cuda -arch={arch}")
    with plan:
        func = attention(shape, shape, shape, "float16", causal=True)
    made = scheduled(func, Target(plan.target), plan)
    (report,) = kernel_reports(made.mod, f"cuda -arch={arch}")
    assert report.resources is not None and not report.resources.spill_stores and not plan.fallbacks
    assert all([a.per_request == a.ideal for a in report.accesses if a.memory == "shared"])
    warpgroups = arch == "sm_90a" and depth in (64, 128)
    assert plan.values().get("attention_sums.form") == ("warpgroups" if warpgroups else None)
    assert ("wgmma float16" if warpgroups else "mma float16") in report.operations


@pytest.mark.parametrize("name", ["softmax0", "layer_norm", "rms_norm"])
def test_rows_stay_in_registers(name: str) -> None:
    ins, outs = KERNELS[name]()
    text = ptx_of(te.create_prim_func([*ins, *outs]), "sm_80")
    assert re.search(r"ld\.global(\.nc)?\.v4", text) and "shfl.sync" in text
    assert not re.search(r"\b(ld|st)\.local", text)


# The oldest and the newest architecture are seen in one model, whose kernels are of every kind.
MODELS_BY_ARCH = [(arch, name) for arch in ("sm_80", "sm_90a") for name in MODELS] + [
    ("sm_75", "unet"),
    ("sm_100a", "unet"),
]


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(("arch", "name"), MODELS_BY_ARCH)
def test_models(arch: str, name: str, precision: str) -> None:
    """Machine code of every kernel of a model, none of which keeps values in memory that belong into registers."""
    config = {} if precision == "float32" else {"relay.build.precision": precision}
    with tvm.transform.PassContext(opt_level=3, config=config):
        built = relay.build(MODELS[name](), f"cuda -arch={arch}")
    kernels = model_kernel_reports(built)
    reports = [report for kernel in kernels for report in kernel.reports]
    assert reports and not [k for k in kernels if k.refused]
    for report in reports:
        used = report.resources
        assert used is not None and used.spill_stores == used.stack == 0, report.name
        assert report.occupancy.blocks >= 1
