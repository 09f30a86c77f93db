"""Types and literals of CUDA C, and the vectors that it lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.codegen.source.device.prelude import Prelude
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.ir import DataType

SCALARS = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
    "float16": "half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double", "handle": "void*",
}  # fmt: skip
BASES = {
    "bool": "uchar", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint",
    "int64": "longlong", "uint64": "ulonglong", "float16": "half", "bfloat16": "bfloat", "float32": "float",
    "float64": "double",
}  # fmt: skip
"""dtype of the elements -> the name of its vectors without the number of lanes."""
HEADERS = {"float16": "#include <cuda_fp16.h>", "bfloat16": "#include <cuda_bf16.h>"}
INLINE = "static __device__ __forceinline__"


class Vectors:
    """The vector types of a text. CUDA has those of two to four lanes; others are structures."""

    def __init__(self, prelude: Prelude) -> None:
        self.prelude = prelude

    def name(self, dtype: DataType) -> str:
        """The name of a vector type; its definition and its header are added to the text."""
        element, lanes = str(dtype.element), dtype.lanes
        name = f"{BASES[element]}{lanes}"
        if element in HEADERS:
            self.prelude.line(HEADERS[element])
        if not self._is_native(dtype) and not self.prelude.defines(name):
            size = dtype.element.bytes * lanes
            kind = "unsigned char" if dtype.is_bool else SCALARS[element]
            self.prelude.define(name, f"struct alignas({min(size & -size, 16)}) {name} {{ {kind} lane[{lanes}]; }};")
        return name

    @staticmethod
    def _is_native(dtype: DataType) -> bool:
        if dtype.element == "float16":
            return dtype.lanes == 2
        return dtype.element != "bfloat16" and dtype.lanes <= 4

    def lane(self, text: str, dtype: DataType, k: Any) -> Text:
        return Text(f"{text}.{'xyzw'[k]}" if self._is_native(dtype) else f"{text}.lane[{k}]")

    def joined(self, dtype: DataType, lanes: Sequence[str]) -> Text:
        name = self.name(dtype)
        if not self._is_native(dtype):
            kind = "unsigned char" if dtype.is_bool else SCALARS[str(dtype.element)]
            params = ", ".join([f"{kind} a{k}" for k in range(dtype.lanes)])
            values = ", ".join([f"a{k}" for k in range(dtype.lanes)])
            made = f"{INLINE} {name} make_{name}({params}) {{\n  return {{{{{values}}}}};\n}}"
            self.prelude.define(f"make_{name}", made)
        return Text(f"make_{name}({', '.join(lanes)})")

    def lanewise(self, name: str, result: DataType, args: Sequence[DataType], make: str) -> str:
        """The name of a function that applies an expression to each lane. make: the expression, with {0}, {1}, ... for the lanes of the
        arguments."""
        types = [self.name(a) for a in args]
        key = f"{name}({', '.join(types)})->{self.name(result)}"
        letters = "abcd"[: len(args)]
        params = ", ".join([f"{t} {letter}" for t, letter in zip(types, letters, strict=True)])

        def at(k: Any) -> str:
            return make.format(*[self.lane(letter, a, k) for letter, a in zip(letters, args, strict=True)])

        if result.lanes > 4:
            lines = [
                f"{self.name(result)} result;",
                "#pragma unroll",
                f"for (int i = 0; i < {result.lanes}; ++i) result.lane[i] = {at('i')};",
                "return result;",
            ]
        else:
            lines = [f"return {self.joined(result, [at(k) for k in range(result.lanes)])};"]
        body = "".join([f"  {line}\n" for line in lines])
        self.prelude.define(key, f"{INLINE} {self.name(result)} {name}({params}) {{\n{body}}}")
        return name


def floating(value: float, dtype: DataType, prelude: Prelude) -> Text:
    """A literal, rounded to its type."""
    if dtype.bits == 16:
        prelude.line(HEADERS[str(dtype.element)])
        return Text(f"{SCALARS[str(dtype.element)]}({floating(value, DataType('float32'), prelude)})")
    with np.errstate(over="ignore"):
        rounded = np.float32(value) if dtype.bits == 32 else np.float64(value)
    double = dtype.bits == 64
    if not math.isfinite(rounded):
        word = "NAN" if math.isnan(rounded) else "INFINITY"
        bits = "0x7fffffff" if math.isnan(rounded) else "0x7f800000"
        prelude.define(word, f"#ifndef {word}\n#define {word} __int_as_float({bits})\n#endif")
        text = f"(double){word}" if double else word
        return Text(f"-{text}", UNARY) if rounded < 0 else Text(text, UNARY if double else 100)
    text = str(rounded)
    if not any([c in text for c in ".e"]):
        text += ".0"
    return Text(text + ("" if double else "f"), UNARY if text.startswith("-") else 100)


__all__ = ["BASES", "HEADERS", "INLINE", "SCALARS", "Vectors", "floating"]
