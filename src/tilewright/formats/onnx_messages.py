"""ONNX's messages, without the package around them, whose import takes longer than that of most models: its checker, converters and
the metadata of installed packages come with it. What is asked of `onnx` itself, its schemas above all, is imported there.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Message = Any
"""A message of ONNX's format: a model, graph, function, node, tensor, type or attribute."""


def messages() -> Any:
    """The module of ONNX's messages (ModelProto, TensorProto, ...): the package, where it is loaded. Its generated module, run alone, gives
    the same classes: protobuf keeps one for each message."""
    loaded = sys.modules.get("onnx")
    return loaded if hasattr(loaded, "ModelProto") else _alone()


@cache
def _alone() -> Any:
    package = find_spec("onnx")
    file = Path(package.origin or "").parent / "onnx_ml_pb2.py" if package is not None else Path()
    spec = spec_from_file_location("onnx.onnx_ml_pb2", file) if file.is_file() else None
    if spec is None or spec.loader is None:
        import onnx

        return onnx
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_TYPES: dict[int, Any] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16,
    11: np.float64, 12: np.uint32, 13: np.uint64, 16: ml_dtypes.bfloat16,
}  # fmt: skip
"""Element types by their numbers in ONNX's format."""


def numpy_type(number: int) -> Any:
    """NumPy's dtype of elements of a type in ONNX's format. Raises KeyError for one that there is not."""
    if number in _TYPES:
        return np.dtype(_TYPES[number])
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(number)


def attribute_value(attribute: Any) -> Any:
    """The value of an AttributeProto. Raises ValueError for one that refers to another, or of an unknown type."""
    kind = messages().AttributeProto
    if not attribute.ref_attr_name:
        if attribute.type == kind.INT:
            return attribute.i
        if attribute.type == kind.INTS:
            return list(attribute.ints)
        if attribute.type == kind.FLOAT:
            return attribute.f
        if attribute.type == kind.STRING:
            return attribute.s
    from onnx import helper

    return helper.get_attribute_value(attribute)
