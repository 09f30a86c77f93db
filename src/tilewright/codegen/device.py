"""Base of back ends whose kernels run on a device other than the CPU, and are launched by functions of the CPU.

Such a back end implements `source`, the text of kernels, and may implement `image`, the bytes that the device loads; this module does the
rest. The driver has split the programs (driver.pipeline: device_pipeline): loops bound to thread axes are kernels, and functions of the
host launch them. Functions of the host are compiled for the target's host. An object holds both parts; `launched` separates them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tilewright.codegen.backend import GPU_RULES, BackEnd, Code, Loaded, back_end_of
from tilewright.codegen.performance.limits import check_limits
from tilewright.codegen.resources import Resources
from tilewright.ir import BaseFunc, CallingConv, IRModule
from tilewright.ir.span import Span
from tilewright.runtime import Device
from tilewright.runtime.device_module import LaunchedKernel, device_module
from tilewright.support.object_kind import ObjectKind
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.transform.function.device_asserts import ASSERTS


class DeviceBackEnd(BackEnd):
    """A back end for a device. Derived classes define `kind`, `forms`, `loads` and `source`."""

    loads: ClassVar[str]
    """The format of `image` by its name in the device's runtime, such as "ptx"."""
    launches: ClassVar[bool] = True
    rules: ClassVar[str] = GPU_RULES

    @abstractmethod
    def source(self, kernels: IRModule, target: Target) -> str:
        """The text of kernels in the first of `forms`."""

    def image(self, text: str, target: Target) -> bytes:
        """The bytes that a device loads for the text of kernels. By default: the text itself."""
        return text.encode()

    def resources(self, text: str, target: Target) -> dict[str, Resources] | None:
        """What each kernel of a text uses once it is compiled, by name; None where the compiler that knows it is not installed."""
        return None

    def form(self, image: bytes) -> str:
        """The format of an image, for back ends that make several. By default: `loads`."""
        return self.loads

    def host(self, target: Target) -> Target:
        return target.host or Target("llvm")

    # ---- kernels of models

    def emit(self, mod: IRModule, target: Target) -> Code:
        host, kernels = split(mod)
        check_limits(kernels, target)
        code = self._host(target).emit(host, self.host(target))
        described = [launched_kernel(f) for f in kernels.functions.values()]
        parts = {"host": list(code), "device": self.source(kernels, target), "kernels": described}
        return Code(json.dumps(parts), code.effort)

    def compile(self, code: Code, target: Target) -> bytes:
        parts = json.loads(code.text)
        pieces = [
            self._host(target).compile(Code(*parts["host"]), self.host(target)),
            self.image(parts["device"], target),
        ]
        head = {"kernels": parts["kernels"], "sizes": [len(p) for p in pieces], "form": self.form(pieces[1])}
        return b"\n".join([json.dumps(head).encode(), b"".join(pieces)])

    def launched(self, objects: Sequence[bytes], target: Target) -> tuple[list[bytes], list[Any]]:
        linked: list[bytes] = []
        forms: dict[str, tuple[list[bytes], list[LaunchedKernel]]] = {}
        for data in objects:
            line, _, rest = data.partition(b"\n")
            head = json.loads(line)
            size = head["sizes"][0]
            linked.append(rest[:size])
            if head["kernels"]:
                code, kernels = forms.setdefault(head["form"], ([], []))
                kernels += [LaunchedKernel(*k)._replace(code=len(code)) for k in head["kernels"]]
                code.append(rest[size:])
        name = device_name(target)
        return linked, [device_module(name, form, code, kernels) for form, (code, kernels) in forms.items()]

    def text(self, code: Code, target: Target, form: str) -> str:
        parts = json.loads(code.text)
        if form == self.forms[0]:
            return str(parts["device"])
        return self._host(target).text(Code(*parts["host"]), self.host(target), form)

    # ---- tensor programs

    def build(self, mod: IRModule, target: Target) -> Any:
        host, kernels = split(mod)
        built = self._host(target).build(host, self.host(target))
        if kernels.functions:
            check_limits(kernels, target)
            text = self.source(kernels, target)
            described = [launched_kernel(f) for f in kernels.functions.values()]
            texts = {self.forms[0]: lambda: text}
            name = device_name(target)
            image = self.image(text, target)
            built.import_module(device_module(name, self.form(image), [image], described, texts))
        return built

    # ---- passed on to the host's back end

    def _host(self, target: Target) -> BackEnd:
        return back_end_of(self.host(target))

    def emit_entry(self, mod: IRModule, names: Sequence[str], target: Target) -> Code:
        return self._host(target).emit_entry(mod, names, self.host(target))

    def emit_registration(self, symbols: Sequence[str], target: Target) -> Code:
        return self._host(target).emit_registration(symbols, self.host(target))

    def object_kind(self, target: Target) -> ObjectKind:
        return self._host(target).object_kind(self.host(target))

    def load(self, objects: Iterable[bytes], exports: Iterable[str]) -> Loaded:
        return back_end_of(Target("llvm")).load(objects, exports)

    def companions(self, target: Target) -> list[bytes]:
        return self._host(target).companions(self.host(target))


def is_launched(func: BaseFunc) -> bool:
    """Whether a function is a kernel that functions of the host launch."""
    return isinstance(func, PrimFunc) and func.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH


def split(mod: IRModule) -> tuple[IRModule, IRModule]:
    """(functions of the host, kernels)."""
    return (
        mod.with_functions({g: f for g, f in mod.functions.items() if not is_launched(f)}),
        mod.with_functions({g: f for g, f in mod.functions.items() if is_launched(f)}),
    )


def launched_kernel(func: Any) -> LaunchedKernel:
    """What a launch needs to know of a kernel. The report of its assertions is no argument: the runtime gives it."""
    assert isinstance(func, PrimFunc)
    asserts = _plain(func.attrs.get(ASSERTS, ()))
    params = func.params[:-1] if asserts else func.params
    args = tuple(["handle" if p.dtype.code == "handle" else str(p.dtype) for p in params])
    maps = _plain(func.attrs.get("tir.tensor_maps", ()))
    name, launch = str(func.attrs["global_symbol"]), tuple(func.attrs["tir.kernel_launch_params"])
    place = f"{func.span.source_name.name}:{func.span.line}" if isinstance(func.span, Span) else ""
    return LaunchedKernel(name, args, launch, maps=maps, asserts=asserts, place=place)


def _plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, (str, int)):
        return value
    return value.value if hasattr(value, "value") else [_plain(x) for x in value]


def device_name(target: Target) -> str:
    """The name of the device type of a target, such as "cuda"."""
    return Device.DEVICE_TYPE_TO_NAME[target.kind.device_type]


__all__ = ["DeviceBackEnd", "is_launched"]
