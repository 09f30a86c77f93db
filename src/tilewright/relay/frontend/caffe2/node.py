"""Context of converters: the operator being converted, with its arguments, and the table of converters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.formats.caffe2_messages import Message, arguments
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.listed import Converters, ListedImporter, ListedNode
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented

converters = Converters()
"""Converters by Caffe2's names of operators: f(node, *inputs)."""


class OperatorNode(ListedNode):
    """The operator that is being converted. results: the number of its outputs."""

    __slots__ = ("given", "results")

    def __init__(self, op: Message, name: str, home: ListedImporter) -> None:
        super().__init__(op.type, name, home)
        self.given, self.results = arguments(op), len(op.output)

    def whole(self, name: str, default: int = 0) -> int:
        """An argument as an integer."""
        return int(self.given.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An argument as a number."""
        return float(self.given.get(name, default))

    def number(self, value: Any, dtype: str) -> Value:
        """A constant without axes. Raises OpNotImplemented for a number that an integer type does not have."""
        kind = numpy_dtype(dtype)
        if isinstance(value, float) and kind.kind in "iu":
            info = np.iinfo(kind)
            if not value.is_integer() or not info.min <= value <= info.max:
                raise OpNotImplemented(f"it computes with {value}, but its input has elements of {dtype}")
        return super().number(value, dtype)

    def text(self, name: str, default: str = "") -> str:
        """An argument as text."""
        found = self.given.get(name, default)
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found)

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An argument as integers; a single one is a list of one."""
        found = self.given.get(name, default)
        if found is None:
            raise self.lacks(name)
        return [int(v) for v in (found if isinstance(found, (list, tuple)) else [found])]

    def lacks(self, name: str) -> ValueError:
        """The error for an argument that must be there."""
        return ValueError(f"its argument {name!r} is missing")

    @property
    def first(self) -> bool:
        """Whether channels come before the spatial axes."""
        return self.text("order", "NCHW") == "NCHW"

    def channel_axis(self, x: Value) -> int:
        """The axis of channels."""
        return 1 if self.first else x.ndim - 1

    def layout(self, axes: int) -> str:
        """The layout of data with so many spatial axes."""
        space = ("", "W", "HW", "DHW")[axes]
        return f"NC{space}" if self.first else f"N{space}C"

    def windows(self, x: Value, single: str, several: str, default: Any) -> list[int]:
        """A number for each spatial axis: `kernels`, `kernel_h` and `kernel_w`, or `kernel`."""
        axes = x.ndim - 2
        if self.given.get(several):
            found = self.ints(several)
            return found * axes if len(found) == 1 else found
        if f"{single}_h" in self.given or f"{single}_w" in self.given:
            return [self.whole(f"{single}_h", default or 1), self.whole(f"{single}_w", default or 1)]
        if single not in self.given and default is None:
            raise self.lacks(single)
        return [self.whole(single, default or 0)] * axes

    def padding(self, x: Value, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> list[int]:
        """The padding: before each spatial axis, then after each."""
        from tilewright.relay.frontend.common.builder import same_padding

        axes = x.ndim - 2
        legacy = self.whole("legacy_pad")
        if legacy == 1:
            return [0] * (2 * axes)
        if legacy == 2:
            start = 2 if self.first else 1
            extents = self.static(x.shape[start : start + axes], "the extents of padded axes")
            pairs = [same_padding(*given) for given in zip(extents, kernel, strides, dilation, strict=True)]
            return [*[p[0] for p in pairs], *[p[1] for p in pairs]]
        if self.given.get("pads"):
            return self.ints("pads")
        if any([f"pad_{side}" in self.given for side in "tlbr"]):
            return [self.whole(f"pad_{side}") for side in "tlbr"]
        return [self.whole("pad")] * (2 * axes)
