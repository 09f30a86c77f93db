"""com.microsoft: what ONNX Runtime's optimizer makes of models, and what quantisers and exporters of language models write."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.contrib import (
    attention,
    blocks,
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
    "attention", "blocks", "experts", "fused", "gates", "grouped", "hashes", "layouts", "quantized", "rotary",
    "search", "sparse", "states", "tensors", "words",
]  # fmt: skip
