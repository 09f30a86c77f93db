"""Which device and target something belongs to: virtual devices, and the set of those that a program is compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tilewright.node import Node, structural_equal
from tilewright.runtime import Device, cpu
from tilewright.runtime.device import device as device_of_name
from tilewright.support.errors import TVMError
from tilewright.target.target import Target


class VirtualDevice(Node, key="VirtualDevice"):
    """A device as a program names it: its type and number, the target that code for it is compiled for, a memory scope. What is
    not known is left open: device_type_int -1, no target, no scope."""

    device_type_int: int
    virtual_device_id: int
    target: Target | None
    memory_scope: str

    def __init__(self, device: Device | None = None, target: Target | None = None, memory_scope: str = "") -> None:
        kind, number = (-1, 0) if device is None else (device.device_type, device.device_id)
        self._build(kind, number, Target.canon_target(target), memory_scope)

    @property
    def device(self) -> Device:
        """The device; TVMError where it is not known."""
        if self.device_type_int < 0:
            raise TVMError("this virtual device does not name a device")
        return Device(self.device_type_int, self.virtual_device_id)

    def device_type(self) -> int:
        """The type of the device."""
        return self.device_type_int

    @property
    def is_constrained(self) -> bool:
        """Whether it says anything."""
        return self.device_type_int >= 0 or self.target is not None or bool(self.memory_scope)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualDevice) and structural_equal(self, other)

    def __hash__(self) -> int:
        return hash((self.device_type_int, self.virtual_device_id, self.memory_scope))

    def __repr__(self) -> str:
        parts = [str(self.device)] if self.device_type_int >= 0 else []
        parts += [repr(str(self.target))] if self.target is not None else []
        parts += [f"memory_scope={self.memory_scope!r}"] if self.memory_scope else []
        return f"VirtualDevice({', '.join(parts)})"


def same_device(a: Device, b: Device) -> bool:
    """Whether two devices are one."""
    return a.device_type == b.device_type and a.device_id == b.device_id


def as_device(key: Any) -> Device:
    """A device from itself, a name ("cpu", "cpu:1") or the number of its type."""
    if isinstance(key, Device):
        return key
    if isinstance(key, int):
        return Device(key, 0)
    if isinstance(key, str):
        name, _, number = key.partition(":")
        return device_of_name(name, int(number or 0))
    raise TypeError(f"a device must be a Device, a name such as 'cpu:1' or a number, but is {key!r}")


class CompilationConfig:
    """The devices that a program is compiled for, each with its target; the first is the default, where what nothing says
    otherwise of is computed. `external_targets` are code generators that parts of the program may be given to."""

    def __init__(
        self,
        devices: Sequence[tuple[Device, Target]],
        host: Target | None = None,
        external_targets: Sequence[Target] = (),
    ) -> None:
        if not devices:
            raise TVMError("a program is compiled for at least one target")
        for i, (d, _) in enumerate(devices):
            if any([same_device(d, other) for other, _ in devices[:i]]):
                raise TVMError(f"the device {d} was given two targets; each has one")
        self.devices = [d for d, _ in devices]
        self.targets = [t for _, t in devices]
        self.external_targets = list(external_targets)
        self.host_target = host if host is not None else self.targets[0]

    @property
    def primitive_targets(self) -> list[Target]:
        """The targets, in the order of the devices, then those of external code generators."""
        return [*self.targets, *self.external_targets]

    @property
    def default_primitive_virtual_device(self) -> VirtualDevice:
        """The device of what nothing says otherwise of."""
        return self.virtual_device(0)

    @property
    def optional_homogeneous_target(self) -> Target | None:
        """The target, where there is only one."""
        return self.targets[0] if len(self.targets) == 1 else None

    @property
    def is_told(self) -> bool:
        """Whether metadata name the devices: nothing is said of the CPU alone."""
        return len(self.devices) > 1 or self.devices[0].device_type != cpu().device_type

    def virtual_device(self, index: int) -> VirtualDevice:
        """A device with its target."""
        return VirtualDevice(self.devices[index], self.targets[index])

    def index(self, device: Device) -> int:
        """The place of a device; -1 where the program is not compiled for it."""
        return next((i for i, d in enumerate(self.devices) if same_device(d, device)), -1)

    def __repr__(self) -> str:
        parts = [f"{d}: {t}" for d, t in zip(self.devices, self.targets, strict=True)]
        return f"CompilationConfig({', '.join([*parts, *map(str, self.external_targets)])})"


TargetLike: TypeAlias = "Target | str | Mapping[str, Any]"
"""One target: itself, its text or its dictionary."""

Targets: TypeAlias = (
    "TargetLike | Sequence[TargetLike] | Mapping[Device | str | int, TargetLike] | CompilationConfig | None"
)
"""What a build is given: see `make_compilation_config`."""


def make_compilation_config(ctxt: Any, target: Any, target_host: Any = None) -> CompilationConfig:
    """The devices of what build was given: one target, a list of targets (the first of a device type is its device 0, the next its
    device 1), or targets by device, by its name or by the number of its type. External code generators in a list have no device
    of their own; one that is given alone works beside its host, or this machine, and so does an accelerator ("ext_dev"), which computes
    what is annotated with it. `ctxt` is the PassContext."""
    host = Target.canon_target(target_host)
    if isinstance(target, CompilationConfig):
        return target
    external: list[Target] = []
    if isinstance(target, Mapping) and "kind" not in target:
        pairs = [(as_device(k), canonical(t)) for k, t in target.items()]
    elif isinstance(target, (list, tuple)):
        pairs = []
        for t in target:
            chosen = canonical(t)
            if chosen.kind.is_external_codegen:
                external.append(chosen)
                continue
            kind = device_type_of(chosen)
            pairs.append((Device(kind, sum([d.device_type == kind for d, _ in pairs])), chosen))
    else:
        found = Target.canon_target(target) or Target.current(True)
        chosen = found if found is not None else Target("llvm")
        if chosen.kind.is_external_codegen:
            external.append(chosen)
            chosen = chosen.host or Target("llvm")
        pairs = [(Device(device_type_of(chosen), 0), chosen)]
        if chosen.kind.name == "ext_dev":
            pairs.insert(0, (cpu(), chosen.host or host or Target("llvm")))
    if external and not pairs:
        pairs = [(cpu(), external[0].host or Target("llvm"))]
    return CompilationConfig(pairs, host, external)


def device_type_of(target: Target) -> int:
    """The type of the devices that a target is for."""
    return Device.DEVICE_NAME_TO_TYPE.get(target.kind.name, target.kind.device_type)


def canonical(target: Any) -> Target:
    """A target from itself, its text or its dictionary; TypeError for nothing."""
    found = Target.canon_target(target)
    if found is None:
        raise TypeError("a device was given no target")
    return found
