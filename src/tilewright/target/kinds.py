"""Target kinds: which options each takes, of which type, with which defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.runtime import Device, get_global_func
from tilewright.support.errors import TVMError

_COMMON: dict[str, type] = {
    "keys": list,
    "device": str,
    "model": str,
    "libs": list,
    "tag": str,
    "host": str,
    "from_device": int,
}
_CPU: dict[str, type] = {
    "mcpu": str,
    "mattr": list,
    "mtriple": str,
    "mabi": str,
    "mfloat-abi": str,
    "march": str,
    "num-cores": int,
    "opt-level": int,
    "jit": str,
    "fast-math": bool,
    "vector-width": int,
    "system-lib": bool,
    "runtime": str,
    "link-params": bool,
    "unpacked-api": bool,
    "interface-api": str,
    "executor": str,
    "workspace-byte-alignment": int,
    "constants-byte-alignment": int,
    "l1-cache-bytes": int,
    "l2-cache-bytes": int,
    "l3-cache-bytes": int,
}
_GPU: dict[str, type] = {
    "max_num_threads": int,
    "max_threads_per_block": int,
    "thread_warp_size": int,
    "max_shared_memory_per_block": int,
    "max_local_memory_per_block": int,
    "registers_per_block": int,
    "l2_cache_size_bytes": int,
    "arch": str,
    "mcpu": str,
    "mtriple": str,
    "fast-math": bool,
    "allow-tf32": bool,
    "max_function_args": int,
    "texture_spatial_limit": int,
    "texture_depth_limit": int,
    "image_base_address_alignment": int,
    "max_block_size_x": int,
    "max_block_size_y": int,
    "supports_integer_dot_product": bool,
    "supports_cooperative_matrix": bool,
    "supports_float16": bool,
    "supports_int8": bool,
}


class TargetKind:
    """One kind of target: `name`, the DLPack `device_type`, `default_keys`, known `options`, `default_attrs`; `is_external_codegen`:
    an external code generator, which takes parts of what another target computes, and any option; `takes_intrinsics`: its code
    generator knows the instructions that LLVM has intrinsics for; `max_function_args`: how many arguments a kernel may have, 0 for any
    number."""

    __slots__ = (
        "default_attrs",
        "default_keys",
        "device_type",
        "is_external_codegen",
        "max_function_args",
        "name",
        "options",
        "takes_intrinsics",
    )

    def __init__(
        self,
        name: str,
        device_type: int,
        default_keys: tuple[str, ...],
        options: dict[str, type],
        default_attrs: dict[str, Any] | None = None,
        is_external_codegen: bool = False,
        takes_intrinsics: bool = True,
        max_function_args: int = 0,
    ) -> None:
        self.max_function_args = max_function_args
        self.takes_intrinsics = takes_intrinsics
        self.name, self.device_type, self.default_keys = name, device_type, default_keys
        self.options = {**_COMMON, **options}
        self.default_attrs = default_attrs or {}
        self.is_external_codegen = is_external_codegen

    @property
    def takes_any_option(self) -> bool:
        """Whether targets may have options that the kind does not declare: those of an external code generator that declares none."""
        return self.is_external_codegen and len(self.options) == len(_COMMON)

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """Option name -> type name of the kind `kind_name`, as classic `TargetKind.options_from_name`."""
        if kind_name not in KINDS:
            raise TVMError(f"there is no target kind {kind_name!r}; known kinds: {', '.join(sorted(KINDS))}")
        return {key: kind.__name__ for key, kind in KINDS[kind_name].options.items()}

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"TargetKind({self.name})"


_GPU_LIMITS = {"max_num_threads": 1024, "thread_warp_size": 32}

KINDS: dict[str, TargetKind] = {
    kind.name: kind
    for kind in (
        TargetKind("llvm", 1, ("cpu",), _CPU),
        TargetKind("c", 1, ("cpu",), {**_CPU, "constants-byte-alignment": int}, takes_intrinsics=False),
        TargetKind("interp", 1, ("cpu",), {"num-cores": int}),
        TargetKind("cuda", 2, ("cuda", "gpu"), _GPU, {**_GPU_LIMITS, "arch": "sm_75"}),
        TargetKind("nvptx", 2, ("cuda", "gpu"), _GPU, _GPU_LIMITS),
        TargetKind("rocm", 10, ("rocm", "gpu"), _GPU, {**_GPU_LIMITS, "thread_warp_size": 64}),
        TargetKind(
            "opencl", 4, ("opencl", "gpu"), _GPU, {"max_num_threads": 256, "thread_warp_size": 1}, max_function_args=128
        ),
        TargetKind(
            "metal", 8, ("metal", "gpu"), _GPU, {"max_num_threads": 256, "thread_warp_size": 16}, max_function_args=31
        ),
        TargetKind("vulkan", 7, ("vulkan", "gpu"), _GPU, {"max_num_threads": 256, "thread_warp_size": 1}),
        TargetKind("hexagon", 1, ("hexagon", "cpu"), {**_CPU, "vtcm-capacity": int, "llvm-options": list}),
        TargetKind("ext_dev", 12, ("ext_dev",), {"vta-config": str}),
        TargetKind("composite", 1, (), {"devices": list}),
        TargetKind("hybrid", 1, ("hybrid", "cpu"), {}),
    )
}

_external: dict[str, TargetKind] = {}


def register_external_kind(name: str) -> None:
    """Makes the name of an external code generator a kind of target, as long as no other kind has it."""
    if name not in KINDS and name not in _external:
        _external[name] = TargetKind(name, 1, (name,), {}, None, True)


def kind_named(name: str) -> TargetKind | None:
    """The kind of a name: one of ours, or an external code generator that has a pattern table or is registered as
    `relay.ext.<name>`."""
    found = KINDS.get(name) or _external.get(name)
    if found is None and get_global_func(f"relay.ext.{name}", allow_missing=True) is not None:
        register_external_kind(name)
        found = _external[name]
    return found


def register_kind(
    name: str,
    options: Mapping[str, type] | None = None,
    keys: Sequence[str] = ("cpu",),
    override: bool = False,
    device: str = "cpu",
    defaults: Mapping[str, Any] | None = None,
    external: bool = False,
) -> TargetKind:
    """Makes a kind of target: `Target(f"{name} -option=1")`. options: those that it has besides the common ones. device: the type of the
    devices in whose memory its code runs. defaults: values of options that a target has without being given them. external: an external
    code generator takes parts of what its host computes. TVMError where there is a kind of the name, unless it is to be overridden."""
    if kind_named(name) is not None and not override:
        raise TVMError(f"there is a target kind {name!r} already; pass override=True to replace it")
    device_type = Device.DEVICE_NAME_TO_TYPE[device]
    KINDS[name] = TargetKind(
        name, device_type, tuple(keys), {"num-cores": int, **(options or {})}, dict(defaults or {}), external
    )
    return KINDS[name]


def remove_kind(name: str) -> None:
    """Forgets a kind of target."""
    KINDS.pop(name, None)


register_external_kind("ccompiler")
