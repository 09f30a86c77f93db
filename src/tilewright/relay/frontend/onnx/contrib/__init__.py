"""Converters of com.microsoft: operators of ONNX Runtime's optimizer, of quantisers, and of exporters of language models."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.contrib import (
    attention,
    block_weights,
    experts,
    fused,
    gates,
    grouped,
    hashes,
    layouts,
    quantized,
    rotary,
    search,
    sparse,
    states,
    tensors,
    words,
)

__all__ = [
    "attention", "block_weights", "experts", "fused", "gates", "grouped", "hashes", "layouts", "quantized", "rotary",
    "search", "sparse", "states", "tensors", "words",
]  # fmt: skip
