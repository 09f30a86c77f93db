"""C text of types, literals and names."""

from __future__ import annotations

import math
import re
import zlib

import numpy as np

from tilewright.codegen.source.text.identifiers import Language
from tilewright.codegen.source.text.operands import ATOM, UNARY, Text
from tilewright.ir import DataType
from tilewright.support.errors import TVMError
from tilewright.tir.scalars import wrap_int

_C_WORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool true false
    main NULL NAN INFINITY l args"""
_KEYWORDS = frozenset(_C_WORDS.split())
_LIBRARY_WORDS = """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor
    fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 logb lrint lround modf nearbyint pow remainder rint round scalbn
    sin sinh sqrt tan tanh tgamma trunc j0 j1 jn y0 y1 yn gamma index malloc calloc realloc free memcpy memmove memset memcmp strlen
    strcmp strcpy printf puts exit abort"""
_LIBRARY = frozenset(_LIBRARY_WORDS.split())
"""Functions of <math.h>, <string.h> and others that compilers know. Functions of programs with these names are renamed in the text."""
_RESERVED = re.compile(r"tw_|TW_|_|[iuf](8|16|32|64)(x|_)|boolx")
C_LANGUAGE = Language(_KEYWORDS, _LIBRARY, _RESERVED)
_SHORT = {"int": "i", "uint": "u", "float": "f"}
_BITS = {"bool": 8, "float16": 16}


def kept(dtype: DataType) -> DataType:
    """The type of a value in C. A float16 is kept as its bits."""
    return DataType("uint16").with_lanes(dtype.lanes) if dtype.element == "float16" else dtype


def scalar(dtype: DataType) -> str:
    """The short name of an element's type: i32, u8, f32."""
    dtype = kept(dtype)
    if dtype.is_bool:
        return "u8"
    if dtype.code == "handle":
        return "ptr"
    if dtype.code in _SHORT and dtype.bits in (8, 16, 32, 64):
        return f"{_SHORT[dtype.code]}{dtype.bits}"
    raise TVMError(f"the C back end has no values of type {dtype}")


def ctype(dtype: DataType) -> str:
    """The C type of a value: int32_t, float, f32x16."""
    dtype = kept(dtype)
    if dtype.lanes > 1:
        return vector(dtype)
    if dtype.is_bool:
        return "uint8_t"
    if dtype.code in ("int", "uint") and dtype.bits in (8, 16, 32, 64):
        return f"{dtype.code}{dtype.bits}_t"
    if dtype.code == "float" and dtype.bits in (32, 64):
        return "float" if dtype.bits == 32 else "double"
    if dtype.code == "handle":
        return "void*"
    if dtype.code in ("void", ""):
        return "void"
    raise TVMError(f"the C back end has no values of type {dtype}")


def vector(dtype: DataType) -> str:
    """The name of a vector type: f32x16, boolx8."""
    dtype = kept(dtype)
    return f"{'bool' if dtype.is_bool else scalar(dtype)}x{dtype.lanes}"


def integer(value: int, dtype: DataType) -> Text:
    """An integer literal, wrapped around to its type."""
    value = wrap_int(value, dtype)
    if dtype.is_bool:
        return Text(str(value))
    if dtype.is_uint:
        return Text(f"{value}{'ull' if value >> 32 else 'u' if dtype.bits >= 32 else ''}")
    if value == -(1 << 63):
        return Text(f"({value + 1}ll - 1)")
    if value == -(1 << 31):
        return Text(f"({value + 1} - 1)")
    text = f"{value}{'ll' if not -(1 << 31) < value < 1 << 31 else ''}"
    return Text(text, ATOM if value >= 0 else UNARY)


def floating(value: float, dtype: DataType) -> Text:
    """A floating point literal, rounded to its type; for float16 the literal of its bits."""
    with np.errstate(over="ignore"):
        if dtype.bits == 16:
            return Text(f"0x{int(np.float64(value).astype(np.float16).view(np.uint16)):04x}")
        rounded = np.float32(value) if dtype.bits == 32 else np.float64(value)
    suffix = "f" if dtype.bits == 32 else ""
    if math.isnan(rounded):
        return Text("TW_NAN")
    if math.isinf(rounded):
        return Text("TW_INF") if rounded > 0 else Text("-TW_INF", UNARY)
    text = str(rounded)
    if not re.search(r"[.e]", text):
        text += ".0"
    return Text(text + suffix, UNARY if text.startswith("-") else ATOM)


def function_name(symbol: str) -> str:
    """The identifier of a function in the text: the symbol itself, if it is one."""
    if not symbol or "\0" in symbol or "@" in symbol:
        raise TVMError(
            f"the function name {symbol!r} cannot be a symbol: symbols are not empty, and hold neither NUL nor @ (which"
            " object files separate versions by). Give the function another name"
        )
    if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", symbol) and symbol not in _KEYWORDS and symbol not in _LIBRARY:
        return symbol
    return f"{re.sub(r'[^a-zA-Z0-9_]', '_', symbol)}_{zlib.crc32(symbol.encode()):08x}"
