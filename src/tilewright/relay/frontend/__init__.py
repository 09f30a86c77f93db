"""Importers: models of other frameworks to relay."""

from __future__ import annotations

from tilewright.relay.frontend.keras import from_keras
from tilewright.relay.frontend.onnx import from_onnx
from tilewright.relay.frontend.pytorch import from_pytorch
from tilewright.relay.frontend.tflite import from_tflite

__all__ = ["from_keras", "from_onnx", "from_pytorch", "from_tflite"]
