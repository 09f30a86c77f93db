"""Converters of ai.onnx.ml: classical machine learning as tensor programs. Only operations on strings need the host."""

from __future__ import annotations

from tilewright.relay.frontend.onnx.ml import features, labels, models, trees

__all__ = ["features", "labels", "models", "trees"]
