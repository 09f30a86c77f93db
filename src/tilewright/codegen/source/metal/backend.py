"""Back end for the target metal. Devices load the text itself."""

from __future__ import annotations

from typing import ClassVar

from tilewright.codegen.device import DeviceBackEnd
from tilewright.codegen.source.device.module import emit_kernels
from tilewright.codegen.source.metal.dialect import Metal
from tilewright.ir import IRModule
from tilewright.target import Target


class MetalBackEnd(DeviceBackEnd):
    """Emits Metal."""

    kind: ClassVar[str] = "metal"
    forms: ClassVar[tuple[str, ...]] = ("metal",)
    loads: ClassVar[str] = "metal"

    def source(self, kernels: IRModule, target: Target) -> str:
        return emit_kernels(kernels, Metal(target.attrs), target)


BACK_END = MetalBackEnd()

__all__ = ["BACK_END", "MetalBackEnd"]
