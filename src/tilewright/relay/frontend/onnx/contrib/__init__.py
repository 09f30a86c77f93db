"""com.microsoft: what ONNX Runtime's optimizer makes of models, and what quantisers and exporters of language models write."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.contrib import attention, fused, grouped, quantized, rotary

__all__ = ["attention", "fused", "grouped", "quantized", "rotary"]
