"""Element types of PyTorch: their names here, promotion of operand types, and tensors as NumPy views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented

if TYPE_CHECKING:
    import torch

DType: TypeAlias = "torch.dtype | int | str"
"""An element type in PyTorch's form: a torch.dtype, TorchScript's code, or a name."""
CODES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool",
    "qint8", "quint8", "qint32", "bfloat16",
)  # fmt: skip
"""Element types, indexed by their codes in TorchScript."""
STORED = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Types without a NumPy view -> types of the same size."""
NAMES = {"float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}


def dtype_name(dtype: DType) -> str:
    """The name of a torch.dtype, a TorchScript code or a name."""
    if isinstance(dtype, int):
        return CODES[dtype]
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """The torch.dtype of a name."""
    import torch

    return getattr(torch, name)


def tensor_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements; not copied if they are contiguous in memory."""
    import torch

    t = tensor.detach()
    if t.layout != torch.strided:
        raise OpNotImplemented(f"a weight is stored as {t.layout}: store it dense (tensor.to_dense())")
    if t.is_quantized:
        t = t.int_repr()
    t = t.cpu().resolve_conj().resolve_neg()
    name = dtype_name(t.dtype)
    if name in STORED:
        return np.asarray(t.contiguous().view(torch_dtype(STORED[name])).numpy()).view(
            numpy_dtype(NAMES.get(name, name))
        )
    try:
        return np.asarray(t.numpy())
    except TypeError:
        raise OpNotImplemented(
            f"a weight is of type {name}, which is not supported: convert it (tensor.to(dtype))"
        ) from None


def kind(dtype: str) -> int:
    """0 bool, 1 integer, 2 floating point, 3 complex."""
    if dtype == "bool":
        return 0
    return 1 if dtype.startswith(("int", "uint")) else 3 if dtype.startswith("complex") else 2


def is_float(dtype: str) -> bool:
    """Whether a type is a floating-point type."""
    return kind(dtype) == 2


def promote_types(a: str, b: str) -> str:
    """The smallest type that holds the values of both."""
    if a == b:
        return a
    import torch

    return dtype_name(torch.promote_types(torch_dtype(a), torch_dtype(b)))


def _joined(higher: str, lower: str) -> str:
    if not higher or not lower:
        return higher or lower
    return higher if kind(higher) >= kind(lower) else promote_types(higher, lower)


def result_dtype(operands: Sequence[Operand], default: str = "float32") -> str:
    """The element type of an elementwise result. Operands are values or Python numbers. Tensors with axes decide; tensors without axes
    count only if their kind is higher, and numbers only if theirs is higher still."""
    ranked = ["", "", ""]
    for x in operands:
        if isinstance(x, Value):
            place, dtype = (0 if x.ndim else 1), x.dtype
        else:
            place = 2
            dtype = "bool" if isinstance(x, bool) else "int64" if isinstance(x, (int, PrimExpr)) else default
            if isinstance(x, complex):
                dtype = "complex64"
        ranked[place] = promote_types(ranked[place], dtype) if ranked[place] else dtype
    return _joined(ranked[0], _joined(ranked[1], ranked[2]))
