"""The standard library of relay text: lists, options and trees, the functions on them, and tensor arrays."""

from tilewright.relay.prelude.standard_library import Prelude, import_from_std
from tilewright.relay.prelude.tensor_array import StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape

__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps", "get_tensor_array_shape", "import_from_std"]
