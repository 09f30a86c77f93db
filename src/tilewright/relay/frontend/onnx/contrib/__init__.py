"""com.microsoft: what ONNX Runtime's optimizer makes of models, and what quantisers and exporters of language models write."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.contrib import (
    attention,
    blocks,
    experts,
    fused,
    gates,
    general,
    grouped,
    hashes,
    layouts,
    quantized,
    rotary,
    search,
    sparse,
    states,
    words,
)

__all__ = [
    "attention", "blocks", "experts", "fused", "gates", "general", "grouped", "hashes", "layouts", "quantized", "rotary",
    "search", "sparse", "states", "words",
]  # fmt: skip
