"""LLVM IR text of data types and constants."""

from __future__ import annotations

import math
import re
import struct
from functools import cache, lru_cache

import ml_dtypes
import numpy as np

from tilewright.codegen.llvm.functions.builder import FunctionBuilder
from tilewright.ir import DataType
from tilewright.support.errors import TVMError
from tilewright.tir.scalars import wrap_int

_PLAIN = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*")
_FLOATS = {16: "half", 32: "float", 64: "double"}
_types: dict[str, str] = {}
_memory: dict[str, str] = {}


def symbol(name: str) -> str:
    """A global name as LLVM IR text has it after the @: in quotes, if it has special characters."""
    if _PLAIN.fullmatch(name):
        return name
    if not name or "\0" in name or "@" in name:
        raise TVMError(
            f"the function name {name!r} cannot be a symbol: symbols are not empty, and hold neither NUL nor @ (which"
            " object files separate versions by). Give the function another name"
        )
    return '"' + "".join([chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in name.encode()]) + '"'


def llvm_type(dtype: DataType) -> str:
    """The type of a value in registers: bool is i1, and bfloat16 is kept as its bits in an i16."""
    found = _types.get(dtype)
    if found is None:
        found = _types[dtype] = _vector(_element(dtype), dtype.lanes)
    return found


def memory_type(dtype: DataType) -> str:
    """The type of a value in memory: the same as in registers, except that a bool takes a byte."""
    found = _memory.get(dtype)
    if found is None:
        found = _memory[dtype] = _vector("i8" if dtype.is_bool else _element(dtype), dtype.lanes)
    return found


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _element(dtype: DataType) -> str:
    code = dtype.code
    if code == "bool":
        return "i1"
    if code in ("int", "uint"):
        return f"i{dtype.bits}"
    if code == "float" and dtype.bits in _FLOATS:
        return _FLOATS[dtype.bits]
    if code == "bfloat":
        return "i16"
    if code in ("float8_e4m3fn", "float8_e5m2", "e4m3_float", "e5m2_float"):
        return "i8"
    if code == "handle":
        return "ptr"
    if code == "void":
        return "void"
    raise TVMError(f"the LLVM back end has no values of type {dtype}")


def float_const(dtype: DataType, value: float) -> str:
    """A scalar floating point literal, rounded to `dtype`, in LLVM's hexadecimal notation."""
    # Not from the cache, in which 0.0 and -0.0 are one key.
    return _float_const(dtype, value) if value else _float_const.__wrapped__(dtype, value)


@lru_cache(maxsize=4096)
def _float_const(dtype: DataType, value: float) -> str:
    if dtype.code == "bfloat":
        return str(int(np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16)))
    if dtype.bits == 16:
        with np.errstate(over="ignore"):
            return f"0xH{int(np.float64(value).astype(np.float16).view(np.uint16)):04X}"
    if dtype.bits == 32 and not math.isnan(value):
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return f"0x{struct.pack('>d', value).hex().upper()}"


def splat(dtype: DataType, literal: str) -> str:
    """A literal for all lanes of `dtype`."""
    return literal if dtype.lanes == 1 else f"splat ({_element(dtype)} {literal})"


def suffix(dtype: DataType) -> str:
    """The suffix for a type in names of LLVM's intrinsics: f32, v16i8."""
    return f"{f'v{dtype.lanes}' if dtype.lanes > 1 else ''}{'f' if dtype.is_float else 'i'}{dtype.bits}"


def resized(b: FunctionBuilder, operand: str, source: str, to: str, signed: bool) -> str:
    """An integer extended or truncated to another width."""
    if source == to:
        return operand
    a, c = bits_of(source), bits_of(to)
    op = "trunc" if c < a else ("sext" if signed else "zext")
    return b.pure(f"{op} {source} {operand} to {to}", operand)


@cache
def bits_of(integer: str) -> int:
    """The width in bits of an LLVM integer type, or of a vector's elements."""
    return int(integer.rpartition("i")[2].rstrip(">"))


def is_literal(operand: str) -> bool:
    """Whether an operand is an integer literal that the emitter may fold."""
    return operand[0] in "-123456789" or operand == "0"


def int_literal(value: int, dtype: DataType) -> str:
    """An integer literal: the signed value of its bits in two's complement."""
    if -128 <= value < 128 and dtype.bits >= 8:
        return str(value)
    value = wrap_int(value, dtype)
    return str(value - (1 << dtype.bits) if not dtype.is_bool and value >> (dtype.bits - 1) > 0 else value)
