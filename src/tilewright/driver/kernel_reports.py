"""The static analysis of programs for GPUs: what their kernels use and cost, without a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen.backend import back_end_of
from tilewright.codegen.device import DeviceBackEnd, split
from tilewright.codegen.performance.kernel_report import KernelReport, analyze_kernel
from tilewright.driver.pipeline import lower_for
from tilewright.ir import GlobalVar, IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc


def kernel_reports(
    program: PrimFunc | IRModule, target: Target | str, sizes: Mapping[str, int] | None = None, compiled: bool = True
) -> list[KernelReport]:
    """The analysis of each kernel of a program whose loops are bound to threads, or that `lower_for` lowered, in order.

    target: "cuda" or "nvptx"; `-arch` and `-model` choose the device. sizes: values of arguments that are numbers, by name. compiled:
    whether registers and spills are found out by the compiler, where it is installed. Raises TVMError for other targets, for programs
    without kernels, and where a launch depends on an argument without a value.
    """
    chosen = Target(target)
    gpu = chosen.gpu
    if not gpu.max_threads_per_multiprocessor:
        raise TVMError(f"kernels are analysed for the targets cuda and nvptx, but the target is {chosen}")
    mod = (
        program
        if isinstance(program, IRModule)
        else IRModule({GlobalVar("main"): program.with_attr("global_symbol", "main")})
    )
    kernels = split(mod)[1]
    if not kernels.functions:
        with chosen:
            kernels = split(lower_for(mod, chosen))[1]
    if not kernels.functions:
        raise TVMError("the program has no kernels: no loop is bound to a thread axis")
    back_end: Any = back_end_of(chosen)
    found = {}
    if compiled and isinstance(back_end, DeviceBackEnd):
        found = back_end.resources(back_end.source(kernels, chosen), chosen) or {}
    functions = [f for f in kernels.functions.values() if isinstance(f, PrimFunc)]
    return [analyze_kernel(f, chosen, found.get(str(f.attrs["global_symbol"])), sizes) for f in functions]


__all__ = ["kernel_reports"]
