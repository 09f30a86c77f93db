"""Back end for the target cuda: CUDA C, and PTX where NVRTC is installed.

Two functions change what it does, as in classic programs: `tvm_callback_cuda_postproc(code, target)` returns the source that takes the
place of the one that was written, and `tvm_callback_cuda_compile(code, target)` returns PTX or machine code for source.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar

from tilewright.codegen.device import DeviceBackEnd
from tilewright.codegen.resources import Resources
from tilewright.codegen.source.cuda import nvrtc
from tilewright.codegen.source.cuda.dialect import Cuda
from tilewright.codegen.source.device.module import emit_kernels
from tilewright.ir import IRModule
from tilewright.runtime import get_global_func
from tilewright.support.errors import TVMError
from tilewright.target import Target

POSTPROC, COMPILE = "tvm_callback_cuda_postproc", "tvm_callback_cuda_compile"


class CudaBackEnd(DeviceBackEnd):
    """Emits CUDA C."""

    kind: ClassVar[str] = "cuda"
    forms: ClassVar[tuple[str, ...]] = ("cu", "cuda")
    loads: ClassVar[str] = "cuda"

    def toolchain(self, target: Target) -> str:
        return toolchain(target)

    def source(self, kernels: IRModule, target: Target) -> str:
        text = emit_kernels(kernels, Cuda(target.attrs), target)
        changed = _called(POSTPROC, text, target)
        if changed is None:
            return text
        return changed.decode() if isinstance(changed, (bytes, bytearray)) else str(changed)

    def image(self, text: str, target: Target) -> bytes:
        made = _called(COMPILE, text, target)
        if made is not None:
            return bytes(made) if isinstance(made, (bytes, bytearray)) else str(made).encode()
        arch, compiler = virtual(str(target.attrs.get("arch", "sm_75"))), nvrtc.nvrtc()
        return text.encode() if compiler is None else compiler.compile(text, arch)

    def resources(self, text: str, target: Target) -> dict[str, Resources] | None:
        compiler = nvrtc.nvrtc()
        return None if compiler is None else compiler.resources(text, target.gpu.arch.replace("compute_", "sm_"))

    def form(self, image: bytes) -> str:
        if image[:4] == b"\x7fELF" or image[:4] == b"\x50\xed\x55\xba":
            return "cubin"
        return "ptx" if b"\n.version" in image[:4096] or image.startswith(b".version") else "cuda"


def virtual(arch: str) -> str:
    """The virtual architecture of a real one: "compute_80" of "sm_80"."""
    if not arch.startswith(("sm_", "compute_")):
        raise TVMError(f'the architecture of target cuda is written like "sm_80", but {arch!r} was given')
    return arch.replace("sm_", "compute_")


def _called(name: str, text: str, target: Target) -> Any:
    """The result of a function that a program registered; None without it. Older programs take the text alone."""
    func = get_global_func(name, allow_missing=True)
    if func is None:
        return None
    plain = getattr(func, "__wrapped__", None)
    if plain is not None and len(inspect.signature(plain).parameters) == 1:
        return func(text)
    return func(text, target)


def toolchain(target: Target) -> str:
    """What images depend on besides the text. Functions of a program are known in its process only."""
    hooks = [name for name in (POSTPROC, COMPILE) if get_global_func(name, allow_missing=True) is not None]
    return f"{nvrtc.identity()} {hooks} {os.getpid()}" if hooks else nvrtc.identity()


BACK_END = CudaBackEnd()

__all__ = ["BACK_END", "CudaBackEnd", "toolchain", "virtual"]
