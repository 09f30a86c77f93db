"""The devices on which values are computed: annotations, and copies between devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.cards.card import OPAQUE, Made, OpCard, Operand
from tilewright.relay.expr import Call, Expr, Function
from tilewright.runtime import Device, device
from tilewright.target.virtual_device import VirtualDevice

PARAM_DEVICES, RESULT_DEVICE = "param_virtual_devices", "result_virtual_device"
"""Attributes of functions."""


def as_virtual_device(value: AnyDevice | None) -> VirtualDevice:
    """A virtual device from a virtual device, a device, or the name of a device."""
    if isinstance(value, VirtualDevice):
        return value
    if isinstance(value, Device):
        return VirtualDevice(value)
    if isinstance(value, str):
        name, _, number = value.partition(":")
        return VirtualDevice(device(name, int(number or 0)))
    raise ValueError(f"expecting a Device or device name, but received a {type(value).__name__}")


AnyDevice = VirtualDevice | Device | str


class _Same(OpCard):
    """Base of operators that return their argument."""

    fuse = OPAQUE

    def infer(self, data: Type) -> Type:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name="copy", tag="injective")

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data


class on_device(_Same, key="on_device"):
    """`data`, computed on a device (`constrain_body`) and needed on it (`constrain_result`). If it is needed elsewhere, planning
    inserts a copy."""

    virtual_device: VirtualDevice
    constrain_result: bool = False
    constrain_body: bool = True
    samples = [(((2, 3),), {"virtual_device": VirtualDevice(device("cpu", 0))})]

    @classmethod
    def make(
        cls, body: Operand, device: AnyDevice, constrain_result: bool = False, constrain_body: bool = True
    ) -> Made:
        where = as_virtual_device(device)
        attrs = {"virtual_device": where, "constrain_result": constrain_result, "constrain_body": constrain_body}
        return cls.call([body], attrs)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        # The adjoint is computed on the device of the value, so body and result change roles.
        other = self.replace(constrain_result=self.constrain_body, constrain_body=self.constrain_result)
        return [Call(self.op, (dy,), other)]


class device_copy(_Same, key="device_copy"):
    """`data`, copied from the memory of one device to that of another."""

    src_virtual_device: VirtualDevice
    dst_virtual_device: VirtualDevice
    samples = [
        (
            ((2, 3),),
            {
                "src_virtual_device": VirtualDevice(device("cpu", 0)),
                "dst_virtual_device": VirtualDevice(device("cpu", 0)),
            },
        )
    ]

    @classmethod
    def make(
        cls, data: Operand, src_device: AnyDevice | None = None, dst_device: AnyDevice | None = None, **attrs: AnyDevice
    ) -> Made:
        source = attrs.get("src_virtual_device", src_device)
        target = attrs.get("dst_virtual_device", dst_device)
        devices = {
            "src_virtual_device": as_virtual_device(source),
            "dst_virtual_device": as_virtual_device(target),
        }
        return cls.call([data], devices)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        back = device_copy(src_virtual_device=self.dst_virtual_device, dst_virtual_device=self.src_virtual_device)
        return [Call(self.op, (dy,), back)]


def function_on_device(function: Function, param_devices: Sequence[AnyDevice], result_device: AnyDevice) -> Function:
    """The function with fixed devices for its parameters and its result."""
    if len(param_devices) != len(function.params):
        raise ValueError(
            f"the function has {len(function.params)} parameters, but {len(param_devices)} devices were given"
        )
    devices = tuple([as_virtual_device(d) for d in param_devices])
    return function.with_attr({PARAM_DEVICES: devices, RESULT_DEVICE: as_virtual_device(result_device)})
