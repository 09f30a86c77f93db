"""The TFLite importer."""

from __future__ import annotations

from tilewright.relay.frontend.tflite.classic import OperatorConverter, TensorWrapper, get_tensor_name
from tilewright.relay.frontend.tflite.frontend import from_tflite, initial_variables, supported_operators

__all__ = [
    "OperatorConverter",
    "TensorWrapper",
    "from_tflite",
    "get_tensor_name",
    "initial_variables",
    "supported_operators",
]
