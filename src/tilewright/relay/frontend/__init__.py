"""Importers: models of other frameworks to relay."""

from __future__ import annotations

from tilewright.relay.frontend.onnx import from_onnx

__all__ = ["from_onnx"]
