"""How a function is called: the values of the attribute "calling_conv"."""

from __future__ import annotations

import enum


class CallingConv(enum.IntEnum):
    """Kinds of calls: by arguments of the packed ABI, by C pointers, or as a launch on a device."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2
