"""Converters of TensorFlow's operators, one for each operator."""

from __future__ import annotations

from tilewright.relay.frontend.tensorflow.ops import (
    arithmetic,
    data,
    decoding,
    examples,
    grads,
    hash,
    image,
    layers,
    linear,
    media,
    movement,
    quantized,
    random,
    resample,
    signal,
    sparse,
    strings,
    suppression,
)

from tilewright.relay.frontend.tensorflow.ops import old_forms  # isort: skip (it names converters of the others)
