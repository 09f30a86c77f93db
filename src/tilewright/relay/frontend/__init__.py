"""Importers: models of other frameworks to relay. Each is imported when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.support import lazy

if TYPE_CHECKING:
    from tilewright.relay.frontend.keras import from_keras
    from tilewright.relay.frontend.onnx import from_onnx
    from tilewright.relay.frontend.pytorch import from_pytorch
    from tilewright.relay.frontend.tensorflow import from_tensorflow
    from tilewright.relay.frontend.tflite import from_tflite

__all__ = ["from_keras", "from_onnx", "from_pytorch", "from_tensorflow", "from_tflite"]

lazy.declare(__name__, {name: f"{__name__}.{name.removeprefix('from_')}:{name}" for name in __all__})
__getattr__ = lazy.resolver(__name__)
