"""com.microsoft: what ONNX Runtime's optimizer makes of models, and what quantisers and exporters of language models write."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.contrib import attention, fused, quantized

__all__ = ["attention", "fused", "quantized"]
