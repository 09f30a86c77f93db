"""The ONNX importer.

`reader` opens a model file and checks it; `importing` makes a module of it; `graph` walks the nodes, folds what is known and
reports all that is not supported at once; the files of `ops` hold one converter per operator and opset.
"""

from __future__ import annotations

from tilewright.relay.frontend.onnx import contrib, control_flow, ml, ops
from tilewright.relay.frontend.onnx.files import model_file
from tilewright.relay.frontend.onnx.importing import from_onnx
from tilewright.relay.frontend.onnx.operators import supported_operators

__all__ = ["from_onnx", "supported_operators"]
