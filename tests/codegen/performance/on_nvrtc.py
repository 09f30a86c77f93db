"""Registers and shared memory of compiled kernels against the limits of each architecture, and the analysis against what NVIDIA's compiler
and occupancy calculator say (`make test-cuda-source`)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpus import cases, programs
from tests.codegen.device.kernels import KERNELS, ONLY_CUDA, OPTIONS
from tests.codegen.device.random_kernels import programs as random_programs
from tests.codegen.performance.kernels import transpose
from tilewright.codegen.backend import back_end_of
from tilewright.codegen.performance.kernel_report import KernelReport
from tilewright.codegen.source.cuda.nvrtc import nvrtc
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.ir.transform import PassContext
from tilewright.relay.backend.kernel_reports import model_kernel_reports
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.cuda_files import include_folders, packages
from tilewright.support.errors import TVMError
from tilewright.target import Target

ARCHES = ("sm_75", "sm_80", "sm_90a", "sm_100a")


def within_limits(found: KernelReport, target: Target) -> None:
    """A block fits, and the compiler has as much static shared memory as the analysis counts: it aligns each array to at most 16 bytes, and
    leaves out what is not used. Dynamic memory for swizzled tiles of warpgroups begins at a multiple of 1024, behind barriers."""
    gpu, used = target.gpu, found.resources
    assert used is not None and 0 < used.registers <= gpu.max_registers_per_thread
    assert found.occupancy.blocks >= 1, found.name
    slack = 1024 if gpu.has_wgmma and found.dynamic_shared else 16 * 8
    assert used.shared_memory <= found.static_shared + slack, found.name
    assert used.shared_memory + found.dynamic_shared <= gpu.shared_memory_per_block_optin


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, arch: str) -> None:
    if name == "asynchronous_pipeline" and arch == "sm_75":
        return
    target = Target(f"cuda -arch={arch}")
    with PassContext(config=OPTIONS.get(name, {})):
        (found,) = kernel_reports(KERNELS[name](), target, {"n": 64, "m": 128} if name == "symbolic" else None)
    within_limits(found, target)
    assert found.resources is not None and found.resources.spill_stores == 0


OPERATORS = [
    cases.product("gemm", "float16", 128, 128, 256),
    cases.product("gemm", "float32", 128, 128, 256),
    cases.product("gemm", "bfloat16", 197, 768, 768),
    cases.product("gemm", "float16", 128, 128, 64, 12),
    cases.convolution(64, 14, 64, 3, 1, 4),
    cases.convolution(3, 56, 64, 7, 2, 4),
    cases.convolution(64, 14, 128, 1, 2, 4),
    cases.attention(2, 4, 4, 128, 128, 64, True),
    cases.attention(2, 8, 2, 128, 128, 128),
    *[
        cases.by_memory(kind, "float16", 64, 1024)
        for kind in ("softmax", "layer_norm", "rms_norm", "row_sum", "transpose")
    ],
    *[cases.by_memory(kind, "float16", 1 << 14) for kind in ("add", "gelu")],
]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("case", OPERATORS, ids=[c.name for c in OPERATORS])
def test_operators_of_models(case: Any, arch: str) -> None:
    """What relay.build makes of operators: every kernel compiles, fits, and spills nothing."""
    if case.dtype == "bfloat16" and arch == "sm_75":
        return
    target = Target(f"cuda -arch={arch}")
    found = model_kernel_reports(programs.build(case, str(target)))
    assert found
    for kernel in found:
        assert kernel.reports and not kernel.refused, kernel
        for report in kernel.reports:
            within_limits(report, target)
            assert report.resources is not None and report.resources.spill_stores == 0, report.name


@pytest.mark.parametrize("arch", ARCHES)
def test_random_programs(arch: str) -> None:
    """Registers never exceed what the threads of a block leave to each."""
    target, count = Target(f"cuda -arch={arch}"), 0
    back_end: Any = back_end_of(target)
    for seed, kernels in random_programs(0, 60, target):
        try:
            text = back_end.source(kernels, target)
        except TVMError:
            continue
        for name, used in back_end.resources(text, target).items():
            assert 0 < used.registers <= 255, (seed, name)
            count += 1
    assert count > 20


def test_static_shared_memory_is_the_compilers() -> None:
    for row in (32, 33):
        (found,) = kernel_reports(transpose(row), "cuda -arch=sm_90a")
        assert found.resources is not None and found.resources.shared_memory == found.static_shared


def test_ptx_of_llvm() -> None:
    """The same kernel by NVRTC and by LLVM and ptxas."""
    for name in KERNELS:
        if name in (*ONLY_CUDA, "int8_dot", "symbolic"):
            continue
        (found,) = kernel_reports(KERNELS[name](), "nvptx -mcpu=sm_80")
        within_limits(found, Target("nvptx -mcpu=sm_80"))


def test_spills_are_found() -> None:
    """Two hundred sums of each of 1024 threads do not fit into 64 registers."""
    lines = "\n".join([f"  s[{k}] = fmaf(s[{k}], x[{k} * n], s[{(7 * k + 1) % 200}]);" for k in range(200)])
    source = f"""extern "C" __global__ void __launch_bounds__(1024) f(float* y, const float* x, int n) {{
  float s[200];
  #pragma unroll
  for (int k = 0; k < 200; ++k) s[k] = x[k * n + threadIdx.x];
  for (int i = 0; i < n; ++i) {{
{lines}
  }}
  #pragma unroll
  for (int k = 0; k < 200; ++k) y[k * n + threadIdx.x] = s[k];
}}"""
    compiler = nvrtc()
    assert compiler is not None
    used = compiler.resources(source, "sm_80")["f"]
    assert used.registers <= 64 and used.spill_stores > 100 and used.stack > 0


CALCULATOR = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int major, minor, threads, registers, shared, of_block, optin, of_multiprocessor, reserved, most;
  while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads, &registers, &shared, &of_block, &optin, &of_multiprocessor,
               &reserved, &most) == 10) {
    cudaOccDeviceProp device;
    device.computeMajor = major; device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = most;
    device.regsPerBlock = 65536; device.regsPerMultiprocessor = 65536; device.warpSize = 32;
    device.sharedMemPerBlock = of_block; device.sharedMemPerMultiprocessor = of_multiprocessor; device.numSms = 100;
    device.sharedMemPerBlockOptin = optin; device.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = 0;
    kernel.maxDynamicSharedSizeBytes = optin; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int code = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared);
    printf("%d\\n", code ? -code : result.activeBlocksPerMultiprocessor);
  }
}
"""


def test_occupancy_is_that_of_the_calculator(tmp_path: Path) -> None:
    """Random kernels on every architecture, beside NVIDIA's header."""
    folder = next(
        f for f in (*include_folders(), *[p / "include" for p in packages()]) if (f / "cuda_occupancy.h").exists()
    )
    (tmp_path / "c.cc").write_text(CALCULATOR)
    command = [*compiler_command("c++"), "-w", f"-I{folder}", str(tmp_path / "c.cc"), "-o", str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    random, asked, ours = np.random.default_rng(0), [], []
    for arch in ("sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"):
        gpu, number = Target(f"cuda -arch={arch}").gpu, int(arch[3:])
        for _ in range(300):
            threads, registers = int(random.integers(1, 1025)), int(random.integers(16, 256))
            shared = int(random.integers(0, gpu.shared_memory_per_block_optin + 1)) // int(random.choice([1, 4, 16]))
            limits = (
                gpu.shared_memory_per_block, gpu.shared_memory_per_block_optin, gpu.shared_memory_per_multiprocessor,
                gpu.shared_memory_reserved, gpu.max_threads_per_multiprocessor,
            )  # fmt: skip
            asked.append(" ".join(map(str, (number // 10, number % 10, threads, registers, shared, *limits))))
            ours.append(gpu.occupancy(threads, registers, shared).blocks)
    said = subprocess.run([str(tmp_path / "c")], input="\n".join(asked), capture_output=True, text=True, check=True)
    theirs = [int(line) for line in said.stdout.split()]
    assert len(theirs) == len(ours)
    assert [(a, o, t) for a, o, t in zip(asked, ours, theirs, strict=True) if o != t] == []
