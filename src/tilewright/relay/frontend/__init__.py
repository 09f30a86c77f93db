"""Importers: models of other frameworks to relay. Each importer is loaded at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.support import lazy

if TYPE_CHECKING:
    from tilewright.relay.frontend.caffe2 import from_caffe2
    from tilewright.relay.frontend.change_datatype import ChangeDatatype
    from tilewright.relay.frontend.coreml import from_coreml
    from tilewright.relay.frontend.darknet import from_darknet
    from tilewright.relay.frontend.keras import from_keras
    from tilewright.relay.frontend.mxnet import from_mxnet
    from tilewright.relay.frontend.onnx import from_onnx
    from tilewright.relay.frontend.paddlepaddle import from_paddle
    from tilewright.relay.frontend.pytorch import from_pytorch
    from tilewright.relay.frontend.tensorflow import from_tensorflow
    from tilewright.relay.frontend.tflite import from_tflite
    from tilewright.runtime.host_functions.strings import decode_strings, encode_strings

__all__ = [
    "ChangeDatatype", "decode_strings", "encode_strings", "from_caffe2", "from_coreml", "from_darknet", "from_keras", "from_mxnet",
    "from_onnx", "from_paddle", "from_pytorch", "from_tensorflow", "from_tflite",
]  # fmt: skip

_MODULES = {name: name.removeprefix("from_") for name in __all__ if name.startswith("from_")}
_MODULES["ChangeDatatype"] = "change_datatype"
_MODULES["from_paddle"] = "paddlepaddle"
_STRINGS = "tilewright.runtime.host_functions.strings"
lazy.declare(__name__, {name: f"{__name__}.{module}:{name}" for name, module in _MODULES.items()})
lazy.declare(__name__, {name: f"{_STRINGS}:{name}" for name in ("decode_strings", "encode_strings")})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
