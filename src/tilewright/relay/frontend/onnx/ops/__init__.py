"""Converters of ONNX's operators, one for each operator and opset."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.ops import (
    arithmetic,
    casting,
    early,
    integers,
    layers,
    movement,
    picking,
    places,
    recurrent,
    resampling,
    resize,
    sequences,
    signal,
    strings,
    training,
    vision,
)
