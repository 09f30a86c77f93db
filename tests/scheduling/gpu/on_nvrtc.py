"""Kernels of the rules for GPUs, compiled by NVRTC (`make test-cuda-source`): instructions in their PTX, for each architecture."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tvm
from tests.scheduling.gpu.kernels import KERNELS
from tests.scheduling.gpu.test_convolutions import convolution
from tests.scheduling.gpu.test_products import matmul
from tilewright import te, tir
from tilewright.codegen.source.cuda.nvrtc import nvrtc
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target


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


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "types", [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("float32", "float32")]
)
def test_types(arch: str, types: tuple[str, str]) -> None:
    for trans in (False, True):
        text = ptx_of(matmul(100, 72, 200, *types, trans, trans), arch)
        assert ("mma.sync" in text) == (types[0] != "float32" and arch != "sm_75")


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions(arch: str, layout: str) -> None:
    text = ptx_of(convolution(layout, 2, 28, 28, 64, 128, 3, 2, 1), arch)
    assert ("mma.sync" in text) == (arch != "sm_75")
    assert not re.search(r"\b(ld|st)\.local", text)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_kernels(arch: str, name: str) -> None:
    ins, outs = KERNELS[name]()
    assert ".entry" in ptx_of(te.create_prim_func([*ins, *outs]), arch)


@pytest.mark.parametrize("name", ["softmax0", "layer_norm", "rms_norm"])
def test_rows_stay_in_registers(name: str) -> None:
    ins, outs = KERNELS[name]()
    text = ptx_of(te.create_prim_func([*ins, *outs]), "sm_80")
    assert re.search(r"ld\.global(\.nc)?\.v4", text) and "shfl.sync" in text
    assert not re.search(r"\b(ld|st)\.local", text)
