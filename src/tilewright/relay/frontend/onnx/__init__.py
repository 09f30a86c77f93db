"""The ONNX importer.

`reader` opens a model and answers for its file; `graph` walks the nodes, folds what is known and reports all that is not
supported at once; the `ops_*` files hold one converter per operator and opset.
"""

from __future__ import annotations

from tilewright.relay.frontend.onnx import (
    casting,
    contrib,
    control_flow,
    integers,
    ml,
    model_file,
    ops_early,
    ops_math,
    ops_nn,
    ops_resize,
    ops_tensor,
    picking,
    recurrent,
    sequences,
    signal,
    text,
    training,
    vision,
)
from tilewright.relay.frontend.onnx.graph import from_onnx, supported_operators

__all__ = ["from_onnx", "supported_operators"]
