"""Back end for the target opencl. Devices load the text itself."""

from __future__ import annotations

from typing import ClassVar

from tilewright.codegen.device import DeviceBackEnd
from tilewright.codegen.source.device.module import emit_kernels
from tilewright.codegen.source.opencl.dialect import OpenCL
from tilewright.ir import IRModule
from tilewright.target import Target


class OpenCLBackEnd(DeviceBackEnd):
    """Emits OpenCL C."""

    kind: ClassVar[str] = "opencl"
    forms: ClassVar[tuple[str, ...]] = ("cl",)
    loads: ClassVar[str] = "opencl"

    def source(self, kernels: IRModule, target: Target) -> str:
        return emit_kernels(kernels, OpenCL(target.attrs), target)


BACK_END = OpenCLBackEnd()

__all__ = ["BACK_END", "OpenCLBackEnd"]
