"""Converters of TFLite's operators, one for each operator."""

from __future__ import annotations

from tilewright.relay.frontend.tflite.ops import (
    arithmetic,
    detection,
    dynamic,
    fixed,
    fourier,
    layers,
    lookup,
    movement,
    quantized,
    random,
    recurrent,
    reduce,
    resize,
    slicing,
    softmax,
    stablehlo,
    windows,
)
