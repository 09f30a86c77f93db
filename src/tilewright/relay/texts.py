"""Names, types, dimensions, numbers and places of sources, as relay's text has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    IntImm,
    PrimType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from tilewright.ir.span import BaseSpan, SequentialSpan, Span
from tilewright.tir import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub
from tilewright.tir import Any as AnyDim

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
SUFFIXES = {
    "float32": "f",
    "float64": "f64",
    "float16": "f16",
    "int64": "i64",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
}
INFIX: dict[type, str] = {Add: "+", Sub: "-", Mul: "*"}
CALLED: dict[type, str] = {
    FloorDiv: "floordiv",
    FloorMod: "floormod",
    Min: "min",
    Max: "max",
    tir.Div: "truncdiv",
    tir.Mod: "truncmod",
    tir.EQ: "eq",
    tir.NE: "ne",
    tir.LT: "lt",
    tir.LE: "le",
    tir.GT: "gt",
    tir.GE: "ge",
    tir.And: "and",
    tir.Or: "or",
}


def name_text(name: str) -> str:
    """The name, in quotes where it is not an identifier."""
    return name if NAME.fullmatch(name) else json.dumps(name)


def hint_text(name: str) -> str:
    """The name of a variable that nothing outside goes by: one that starts with a digit is not a number, so `1` is `v1`."""
    lettered = f"v{name}"
    return lettered if not name or (name[0].isdecimal() and NAME.fullmatch(lettered)) else name_text(name)


def comma(items: Iterable[str]) -> str:
    """The inside of a tuple in parentheses: a single item is followed by a comma."""
    listed = list(items)
    return ", ".join(listed) + ("," if len(listed) == 1 else "")


def type_text(
    t: Type | None, dim: Callable[[Any], str] | None = None, hole: Callable[[IncompleteType], str] | None = None
) -> str:
    """`Tensor[(1, 3), float32]`; types and dimensions of which nothing is known print as `?`, or as `dim` and `hole` say."""

    def text(x: Type | None) -> str:
        return type_text(x, dim, hole)

    if isinstance(t, TensorType):
        return f"Tensor[({comma(map(dim or dim_text, t.shape))}), {t.dtype}]" if t.shape else str(t.dtype)
    if isinstance(t, TupleType):
        return f"({comma(map(text, t.fields))})"
    if isinstance(t, FuncType):
        head = f"fn [{', '.join(map(text, t.type_params))}] " if t.type_params else "fn "
        return f"{head}({', '.join(map(text, t.arg_types))}) -> {text(t.ret_type)}"
    if isinstance(t, (TypeVar, GlobalTypeVar)):
        return t.name_hint
    if isinstance(t, TypeCall):
        return f"{text(t.func)}[{', '.join(map(text, t.args))}]"
    if isinstance(t, RefType):
        return f"ref({text(t.value)})"
    if t is None or isinstance(t, IncompleteType):
        return "?" if t is None or hole is None else hole(t)
    if isinstance(t, PrimType):
        return str(t.dtype)
    return type(t).__name__


def dim_text(d: Any) -> str:
    """A dimension for people: numbers without their type."""
    if isinstance(d, AnyDim):
        return "?"
    if isinstance(d, IntImm):
        return str(d.value)
    if type(d) in INFIX:
        return f"({dim_text(d.a)} {INFIX[type(d)]} {dim_text(d.b)})"
    if type(d) in CALLED:
        return f"{CALLED[type(d)]}({dim_text(d.a)}, {dim_text(d.b)})"
    if isinstance(d, tir.Select):
        return f"select({dim_text(d.condition)}, {dim_text(d.true_value)}, {dim_text(d.false_value)})"
    return dim_text(d.value) if isinstance(d, tir.Cast) else str(d)


def span_text(span: BaseSpan | None) -> str:
    """The names of the sources a span stands for, such as the names of model nodes."""
    if isinstance(span, Span):
        return span.source_name.name + (f":{span.line}:{span.column}" if span.line else "")
    if isinstance(span, SequentialSpan):
        return ", ".join(dict.fromkeys(filter(None, map(span_text, span.spans))))
    return ""


def float_text(value: float) -> str:
    """The shortest text that is this very number."""
    short = f"{value:.7g}"
    return (short if float(short) == value else repr(float(value))) + "f"


def attr_text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(attr_text, value))}]"
    if isinstance(value, str):
        return json.dumps(str(value))
    if isinstance(value, float):
        return float_text(value)
    return str(value)


def scalar_text(value: Any) -> str | None:
    """The number with its dtype's suffix; None for dtypes and values that have no such text."""
    name = value.dtype.name
    if name in ("bool", "int32"):
        return str(value)
    suffix = SUFFIXES.get(name)
    if suffix is None or not np.isfinite(value):
        return None
    return str(value[()]).removesuffix(".0") + suffix
