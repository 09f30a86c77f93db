"""Converters of PyTorch's operators, one for each ATen operator."""

from __future__ import annotations

from tilewright.relay.frontend.pytorch.ops import (
    activation,
    arithmetic,
    complex_numbers,
    create,
    data,
    encoder,
    factor,
    index,
    layers,
    levels,
    linalg,
    movement,
    norm,
    quantized,
    recurrent,
    reduce,
    resize,
    segments,
    special,
    vision,
)
