"""Modules of code for a device other than the CPU; their functions launch kernels of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.runtime.device import Device
from tilewright.runtime.linking.module_source import ModuleSource
from tilewright.runtime.module import Module, module_of_bytes

DEVICE_CODE = "tilewright_device"
"""The kind under which a library holds such a module."""


class LaunchedKernel(NamedTuple):
    """What a launch needs to know of a kernel.

    args: dtypes of its arguments, "handle" for addresses; launch: what the numbers behind the arguments say, in order: extents of thread
    axes ("blockIdx.x"), and bytes of dynamic shared memory ("tir.use_dyn_shared_memory"); code: which piece of the module's code it is in.

    maps: arguments that are addresses, of which a launch makes tensor maps: (argument, type of the elements, swizzle in bytes, extents,
    strides in elements without the last one, box), the outermost dimension first.

    asserts: of each assertion the kind of its error, its text, and whether a number follows the text. A kernel that has some takes the
    address of a report behind its arguments, which a launch gives it and reads. place: of the text that it comes from, "file:line".
    """

    name: str
    args: tuple[str, ...]
    launch: tuple[str, ...]
    code: int = 0
    maps: Sequence[Sequence[Any]] = ()
    asserts: Sequence[Sequence[Any]] = ()
    place: str = ""


def device_module(
    device_type: str,
    form: str,
    code: Sequence[bytes],
    kernels: Sequence[LaunchedKernel],
    texts: Mapping[str, Callable[[], str | bytes]] | None = None,
) -> Module:
    """A module of kernels for devices of a type ("cuda"). form: that of the code, which the runtime of the device knows ("ptx").

    `module[name](arguments..., numbers of the launch...)` launches a kernel: on the device of the tensors among the arguments, or for mere
    addresses on the one that `__tvm_set_device` has set. Code is loaded when it is first launched. ValueError for tensors that are not on
    such a device, or on several.
    """
    head = {
        "type": device_type,
        "device_type": Device.DEVICE_NAME_TO_TYPE[device_type],
        "form": form,
        "code": [len(piece) for piece in code],
        "kernels": [k._asdict() for k in kernels],
    }
    data = json.dumps(head).encode() + b"\n" + b"".join(code)
    source = ModuleSource([], texts)
    source.type_key = device_type
    source.hold_as(DEVICE_CODE, lambda: data)
    return module_of_bytes("runtime.DeviceModule", data, source)


__all__ = ["LaunchedKernel", "device_module"]
