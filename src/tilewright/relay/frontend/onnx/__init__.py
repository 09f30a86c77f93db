"""The ONNX importer.

`reader` opens and checks a model file; `importing` builds its module; `graph` walks the nodes, folds known values and
reports all unsupported parts at once; the files of `ops` have one converter per operator and opset.
"""

from __future__ import annotations

from tilewright.relay.frontend.onnx import contrib, control_flow, ml, ops
from tilewright.relay.frontend.onnx.files import model_file
from tilewright.relay.frontend.onnx.importing import from_onnx
from tilewright.relay.frontend.onnx.operators import supported_operators

__all__ = ["from_onnx", "supported_operators"]
