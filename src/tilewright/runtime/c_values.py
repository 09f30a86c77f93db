"""Codes of types and conversions to C's values, as programs use them that call C libraries by ctypes (classic `_ffi.base` and
`_ffi.runtime_ctypes`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

string_types = (str,)
integer_types = (int, np.int32)
numeric_types = (*integer_types, float, np.float16, np.float32)


class DataTypeCode:
    """Codes of kinds of numbers, those of DLPack and beyond."""

    INT, UINT, FLOAT, HANDLE, BFLOAT, E4M3Float, E5M2Float = 0, 1, 2, 3, 4, 6, 7


class ArgTypeCode:
    """Codes of kinds of arguments in classic C interfaces."""

    INT, UINT, FLOAT, HANDLE, NULL, TVM_TYPE, DLDEVICE, DLTENSOR_HANDLE, OBJECT_HANDLE, MODULE_HANDLE = range(10)
    PACKED_FUNC_HANDLE, STR, BYTES, NDARRAY_HANDLE, OBJECT_RVALUE_REF_ARG = range(10, 15)
    EXT_BEGIN = 15


tvm_shape_index_t = ctypes.c_int64
"""The type of extents in arrays of C."""


class TVMByteArray(ctypes.Structure):
    """Bytes and their number."""

    _fields_ = [("data", ctypes.POINTER(ctypes.c_byte)), ("size", ctypes.c_size_t)]


def c_str(string: str) -> ctypes.c_char_p:
    """A text as a pointer of C."""
    return ctypes.c_char_p(string.encode("utf-8"))


def py_str(x: bytes) -> str:
    """A text of C as one of Python."""
    return x.decode("utf-8")


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """An array of C with these elements."""
    return (ctype * len(values))(*values)
