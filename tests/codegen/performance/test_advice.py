"""Advice: each sentence on a kernel that needs it, and none on one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codegen.device.kernels import KERNELS, elementwise, tiled
from tests.codegen.performance.kernels import copies, transpose
from tilewright import tir
from tilewright.codegen.performance.advice import advice
from tilewright.codegen.resources import Resources, read_log
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.target import Target

T4 = Target("cuda -arch=sm_75")


def told(func: tir.PrimFunc, target: Target = T4, **changes: Any) -> str:
    (report,) = kernel_reports(func, target, compiled=False)
    return "\n".join(advice(report._replace(**changes), target.gpu))


def test_accesses() -> None:
    text = told(transpose(32))
    assert (
        "load of tile[threadIdx_x * 32 + threadIdx_y + k * 8]: 32-way bank conflicts: pad its rows (storage_align)"
        in text
    )
    assert "conflicts" not in told(transpose(33))
    text = told(copies(lambda b, t: (b * 256 + t) * 8))
    assert "32.0 sectors a request where 4.0 would do: let threadIdx.x run along the last dimension" in text


def test_widths() -> None:
    assert "threads access x, y by 4 bytes: 16 bytes (vectorize) need fewer instructions" in told(
        copies(lambda b, t: b * 256 + t)
    )
    assert "by 4 bytes" not in told(elementwise("float32", 4, lambda a, b: a + b, 2))


@pytest.mark.parametrize(
    ("blocks", "threads", "text"),
    [
        (8, 256, "8 blocks leave 32 of 40 multiprocessors idle"),
        (170, 256, "1.06 waves of blocks fill the device to 53%: take tiles that make whole waves"),
        (64, 100, "100 threads are no whole warps: take a multiple of 32"),
    ],
)
def test_launches(blocks: int, threads: int, text: str) -> None:
    assert text in told(copies(lambda b, t: b * threads + t, threads=threads, blocks=blocks))
    assert text not in told(copies(lambda b, t: b * 256 + t, blocks=160))


def test_registers() -> None:
    assert "spilled" not in told(KERNELS["matmul"](), resources=Resources(64))
    text = told(KERNELS["matmul"](), resources=Resources(255, 64, 120, 240))
    assert "120 bytes of registers are spilled by each thread (255 registers): take smaller register tiles" in text


def test_occupancy() -> None:
    held = Target("cuda -arch=sm_75").gpu.occupancy(256, 255)
    text = told(copies(lambda b, t: b * 256 + t), occupancy=held._replace(share=0.2))
    assert "a multiprocessor holds 8 of 32 warps, limited by registers" in text


@pytest.mark.parametrize(("out", "times"), [("float16", 4), ("float32", 16)])
def test_matrix_units(out: str, times: int) -> None:
    """float16 has four times the rate of float32 without matrix units, so that wide sums lose more."""
    target = Target("cuda -arch=sm_80")
    (report,) = kernel_reports(tiled(256, 256, 256, "float16", "shared", out), target, compiled=False)
    bound = report._replace(bounds=tuple([b for b in report.bounds if b.name == "arithmetic"]))
    text = f"products of float16 are computed without matrix units, which are {times} times as fast"
    assert advice(bound, target.gpu)[-1] == text
    assert report.factors == (("float16",) if out == "float32" else ())


def test_reads_of_shared_memory() -> None:
    report, *_ = kernel_reports(tiled(256, 256, 256), "cuda -arch=sm_90a", compiled=False)
    free = report._replace(accesses=tuple([a._replace(per_request=a.ideal) for a in report.accesses]))
    text = advice(free, Target("cuda -arch=sm_90a").gpu)[-1]
    assert text.startswith("reads of shared memory take ") and text.endswith(
        "or by wgmma, which reads it without registers"
    )
    assert "shared memory take" not in told(transpose(33))


LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 93.378 ms
ptxas info    : Compiling entry function 'first_kernel' for 'sm_90a'
ptxas info    : Function properties for first_kernel
    160 bytes stack frame, 24 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 160 bytes cumulative stack size, 2048 bytes smem, 360 bytes cmem[0]
"""


def test_log_of_the_assembler() -> None:
    assert read_log(LOG) == {"second": Resources(10), "first_kernel": Resources(80, 160, 24, 48, 2048, 1)}
    assert read_log("") == {}
