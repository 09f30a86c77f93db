"""Context of converters: the layer being converted, with its parameters, and the table of converters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.formats.coreml_messages import Message, weights_of
from tilewright.relay.frontend.common.listed import Converters, ListedImporter, ListedNode
from tilewright.relay.frontend.common.value import Value

converters = Converters()
"""Converters by Core ML's names of layers: f(layer, *inputs)."""


class CoreMLLayer(ListedNode):
    """The layer that is being converted: `options`, its parameters; `exact`: tensors have the ranks that the model declares (else four
    axes, batch, channels, rows, columns, as before version 4 of the format)."""

    __slots__ = ("exact", "options")

    def __init__(self, kind: str, params: Message, name: str, home: ListedImporter, exact: bool) -> None:
        super().__init__(kind, name, home)
        self.options, self.exact = params, exact

    def array(self, field: str, shape: Sequence[int]) -> np.ndarray:
        """Weights in this shape."""
        return weights_of(getattr(self.options, field), shape)

    def parameter(self, field: str, shape: Sequence[int]) -> Value:
        """Weights as a parameter of the program."""
        return self.weight(field, self.array(field, shape))

    def channel(self, x: Value) -> int:
        """The axis of channels: the third from behind."""
        return self.axis(-3, x.ndim) if self.exact or x.ndim > 4 else 1

    def pair(self, field: str, default: int) -> tuple[int, int]:
        """A number for rows and columns."""
        found = [int(v) for v in getattr(self.options, field)]
        return (found[0], found[1]) if found else (default, default)

    def image(self, x: Value) -> tuple[Value, list[Any]]:
        """(the tensor with four axes, the extents before its last three): all axes before them are the batch."""
        front = list(x.shape[:-3])
        return (x if x.ndim == 4 else self.reshape(x, [-1, *x.shape[-3:]])), front

    def back(self, x: Value, front: Sequence[Any]) -> Value:
        """A tensor of four axes with these extents in place of its batch."""
        return x if len(front) == 1 else self.reshape(x, [*front, *x.shape[1:]])

    def per_channel(self, x: Value, v: Value) -> Value:
        """A vector with an element for each channel, so that it broadcasts over x."""
        return self.reshape(v, [*v.shape, *[1] * (x.ndim - 1 - self.channel(x))])
