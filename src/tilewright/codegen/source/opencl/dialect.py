"""The dialect of OpenCL C 1.2, with extensions for half, double and 64-bit atomics where a kernel uses them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tilewright.codegen.source.device.dialect import Dialect
from tilewright.codegen.source.device.refused import Refused
from tilewright.codegen.source.opencl import atomics
from tilewright.codegen.source.text.identifiers import Language
from tilewright.codegen.source.text.operands import RELATION, UNARY, Text
from tilewright.ir import DataType
from tilewright.tir.transform.types.legalize import float16_as_bits, without_bfloat16

if TYPE_CHECKING:
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import PrimFunc

_WORDS = """auto bool break case char complex const continue default do double else enum event_t extern float for global goto half if
    image1d_t image2d_t image3d_t imaginary inline int kernel local long private quad register restrict return sampler_t short signed
    size_t sizeof static struct switch typedef uchar uint ulong unsigned ushort void volatile while constant read_only write_only
    read_write uniform pipe generic main true false NAN INFINITY NULL vec_step"""
_LIBRARY = """abs max min clamp mix step sign degrees radians exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2
    sinh cosh tanh asinh acosh atanh sinpi cospi tanpi sqrt rsqrt cbrt pow pown powr rootn floor ceil trunc round rint fabs fma mad fmod
    erf erfc hypot ldexp ilogb logb frexp modf copysign nextafter remainder isnan isinf isfinite isequal isnormal select bitselect
    any all dot cross length distance normalize barrier mem_fence printf popcount clz rotate hadd rhadd mul24 mad24 upsample
    shuffle shuffle2 prefetch wait_group_events fract gamma lgamma tgamma fdim fmax fmin half_exp native_exp get_global_id
    get_local_id get_group_id as_int as_float"""
_MATH = """exp exp2 exp10 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt pow floor ceil
    trunc fabs fma fmod erf erfc hypot copysign nextafter atan2"""
_FAST = "exp exp2 exp10 log log2 log10 sin cos tan sqrt rsqrt"
SCALARS = {
    "bool": "bool", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint",
    "int64": "long", "uint64": "ulong", "float16": "half", "float32": "float", "float64": "double", "handle": "void*",
}  # fmt: skip
_EXTENSIONS = {"float16": "cl_khr_fp16", "float64": "cl_khr_fp64"}
_MASKS = {8: "char", 16: "short", 32: "int", 64: "long"}
"""Bits of compared lanes -> the type of the lanes of the result."""


class _Compared(Text):
    """The truth of a comparison of vectors. mask: the comparison itself, -1 where it holds, in lanes of so many bits as those compared."""

    __slots__ = ("bits", "mask")
    bits: int
    mask: str

    def __new__(cls, mask: str, compared: DataType) -> _Compared:
        self: _Compared = super().__new__(cls, f"convert_uchar{compared.lanes}(-({mask}))")  # type: ignore[assignment]
        self.mask, self.bits = mask, compared.bits
        return self


class OpenCL(Dialect):
    """OpenCL C."""

    name: ClassVar[str] = "OpenCL C"
    identifiers: ClassVar[Language] = Language(
        frozenset(_WORDS.split()),
        frozenset(_LIBRARY.split()),
        re.compile(
            r"_|(u?(char|short|int|long)|float|double|half|bool)(2|3|4|8|16)$|(convert|as|vload|vstore|get|atom|sub_group)_?"
        ),
    )
    scalars: ClassVar[Mapping[str, str]] = SCALARS
    math: ClassVar[Mapping[str, str]] = {
        **{n: n for n in _MATH.split()}, "round": "rint", "nearbyint": "rint", "rint": "rint"
    }  # fmt: skip
    fast_math: ClassVar[Mapping[str, str]] = {n: f"native_{n}" for n in _FAST.split()}
    inline: ClassVar[str] = "static inline"
    most_aligned: ClassVar[int] = 128
    lane_counts: ClassVar[tuple[int, ...]] = (2, 3, 4, 8, 16)

    def legal(self, func: PrimFunc) -> PrimFunc:
        func = without_bfloat16(func, named=True)
        return super().legal(func if self.attrs.get("supports_float16", True) else float16_as_bits(func))

    # --- types and literals

    def extension(self, name: str) -> None:
        self.prelude.line(f"#pragma OPENCL EXTENSION {name} : enable")

    def scalar(self, dtype: DataType) -> str:
        if str(dtype) in _EXTENSIONS:
            self.extension(_EXTENSIONS[str(dtype)])
        return super().scalar(dtype)

    def stored(self, dtype: DataType) -> str:
        return "uchar" if dtype.is_bool else self.scalar(dtype)

    def vector(self, dtype: DataType) -> str:
        self.check_lanes(dtype)
        return f"{self.stored(dtype.element)}{dtype.lanes}"

    def floating(self, value: float, dtype: DataType) -> Text:
        self.scalar(dtype.element)
        kind = {16: np.float16, 32: np.float32, 64: np.float64}[dtype.bits]
        with np.errstate(over="ignore"):
            rounded: Any = kind(value)
        if not math.isfinite(rounded):
            word = "NAN" if math.isnan(rounded) else "INFINITY"
            text = word if dtype.bits == 32 else f"({self.scalar(dtype)}){word}"
            return Text(f"-{text}", UNARY) if rounded < 0 else Text(text, 100 if dtype.bits == 32 else UNARY)
        text = str(rounded)
        text = text if any([c in text for c in ".e"]) else f"{text}.0"
        return Text(text + {16: "h", 32: "f", 64: ""}[dtype.bits], UNARY if text.startswith("-") else 100)

    # --- vectors

    def lane(self, text: Text, dtype: DataType, k: int) -> Text:
        return Text(f"{text}.s{k:x}")

    def joined(self, dtype: DataType, lanes: Sequence[str]) -> Text:
        return Text(f"({self.vector(dtype)})({', '.join(lanes)})", UNARY)

    def splat(self, dtype: DataType, text: Text) -> Text:
        return Text(f"({self.vector(dtype)})({text})", UNARY)

    def compared(self, sign: str, a: Text, b: Text, dtype: DataType) -> Text:
        self.vector(dtype)
        return _Compared(f"{a.at(RELATION + 1)} {sign} {b.at(RELATION + 1)}", dtype)

    def select(self, condition: Text, a: Text, b: Text, dtype: DataType) -> Text:
        if isinstance(condition, _Compared) and condition.bits == dtype.bits:
            return Text(f"select({b}, {a}, {condition.mask})")
        mask = f"{_MASKS[max(dtype.bits, 8)]}{dtype.lanes}"
        return Text(f"select({b}, {a}, convert_{mask}({condition}) != ({mask})(0))")

    def convert(self, text: Text, source: DataType, to: DataType) -> Text:
        if source == to:
            return text
        if to.is_bool:
            if to.lanes > 1:
                return self.compared("!=", text, self.splat(source, Text("0")), source)
            return Text(f"{text.at(RELATION + 1)} != 0", RELATION)
        kind = self.type(to)
        saturates = source.is_float and not to.is_float
        if to.lanes > 1 or saturates and to.bits < 32:
            return Text(f"convert_{kind}{'_sat' if saturates else ''}({text})")
        return Text(f"({kind}){text.at(UNARY)}", UNARY)

    def reinterpret(self, text: Text, source: DataType, to: DataType) -> Text:
        return Text(f"as_{self.type(to)}({text})")

    # --- functions

    def function(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        found = self.math.get(name)
        if found is None:
            raise Refused(f"OpenCL C has no function {name}")
        if self.fast and dtype.bits == 32:
            found = self.fast_math.get(name, found)
        return Text(f"{found}({', '.join(args)})")

    def extreme(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        if not dtype.is_float:
            if dtype.lanes == 1:
                fit = self.narrowed if dtype.bits < 32 else self.typed
                a, b = fit(a, dtype), fit(b, dtype)
            return Text(f"{name}({a}, {b})")
        word, adjective, sign = ("maximum", "larger", ">") if name == "max" else ("minimum", "smaller", "<")
        kind = self.type(dtype)
        key = f"{word}_{kind}"
        test = f"(a {sign} b) | (a != a)" if dtype.lanes > 1 else f"a {sign} b || a != a"
        body = f"select(b, a, {test})" if dtype.lanes > 1 else f"{test} ? a : b"
        comment = f"// The {adjective} one; NaN where either is.\n"
        self.prelude.define(key, f"{comment}static inline {kind} {key}({kind} a, {kind} b) {{ return {body}; }}")
        return Text(f"{key}({a}, {b})")

    def floor_division(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        kind, first = self.type(dtype), "q = a / b" if name == "floordiv" else "r = a % b"
        signs = "((a < 0) != (b < 0))"
        if dtype.lanes > 1:
            # A comparison of vectors gives -1 where it holds.
            last = f"q + ((q * b != a) & {signs})" if name == "floordiv" else f"r - ((r != 0) & {signs}) * b"
        else:
            last = f"q * b != a && {signs} ? q - 1 : q" if name == "floordiv" else f"r != 0 && {signs} ? r + b : r"
        key, what = (
            f"{name}_{kind}",
            "quotient, rounded down" if name == "floordiv" else "remainder; it has the sign of b",
        )
        body = f"  {kind} {first};\n  return {last};"
        self.prelude.define(key, f"// The {what}.\nstatic inline {kind} {key}({kind} a, {kind} b) {{\n{body}\n}}")
        return Text(f"{key}({a}, {b})")

    def conversion(self, name: str, lanes: int) -> str | None:
        """float16 of devices without the extension, by functions that all devices have."""
        if name not in ("float_of_float16", "float16_of_float"):
            return None
        n = "" if lanes == 1 else str(lanes)
        key = name if lanes == 1 else f"{name}x{lanes}"
        if name == "float_of_float16":
            head, first = f"float{n} {key}(uint{n} x)", f"ushort{n} bits = convert_ushort{n}(x);"
            last = f"return vload_half{n}(0, (const half*)&bits);"
        else:
            head, first = f"uint{n} {key}(float{n} x)", f"ushort{n} bits;\n  vstore_half{n}(x, 0, (half*)&bits);"
            last = f"return convert_uint{n}(bits);"
        self.prelude.define(key, f"static inline {head} {{\n  {first}\n  {last}\n}}")
        return key

    def count_bits(self, name: str, dtype: DataType, a: Text) -> Text:
        unsigned = self.scalar(DataType(f"uint{dtype.bits}"))
        text = Text(f"{name}(({unsigned}){a.at(UNARY)})")
        return text if dtype.bits == 32 else Text(f"(int){text}", UNARY)

    # --- memory

    def pointer(self, element: str, scope: str, const: bool = False) -> str:
        space = {"shared": "__local ", "global": "__global ", "constant": "__constant "}.get(scope, "")
        return f"{space}{'const ' if const else ''}{element}*"

    def load(self, place: Text, dtype: DataType, scope: str, aligned: bool) -> Text | None:
        if aligned and dtype.lanes != 3:
            return super().load(place, dtype, scope, True)
        return Text(f"vload{dtype.lanes}(0, {place})")

    def store(self, place: Text, value: Text, dtype: DataType, scope: str, aligned: bool) -> str | None:
        if aligned and dtype.lanes != 3:
            return super().store(place, value, dtype, scope, True)
        return f"vstore{dtype.lanes}({value}, 0, {place});"

    def array(self, element: str, name: str, count: int, scope: str, aligned: int) -> str:
        align = f" __attribute__((aligned({aligned})))" if aligned else ""
        return f"{'__local ' if scope == 'shared' else ''}{element} {name}[{count}]{align};"

    def constant(self, element: str, name: str, values: Sequence[str]) -> None:
        self.prelude.define(name, f"__constant {element} {name}[{len(values)}] = {{{', '.join(values)}}};")

    def dynamic(self, name: str, element: str, emitter: KernelEmitter) -> str:
        emitter.params.append(f"__local uchar* {name}")
        return "uchar"

    def scalar_parameter(self, kind: str, name: str, place: int) -> str:
        return f"{kind} {name}"

    def pointer_parameter(self, element: str, name: str, const: bool, alone: bool, place: int) -> str:
        return f"__global {'const ' if const else ''}{element}* {'restrict ' if alone else ''}{name}"

    # --- threads and kernels

    def head(self, emitter: KernelEmitter, symbol: str, threads: Sequence[int] | None) -> str:
        bounds = f"__attribute__((reqd_work_group_size({', '.join(map(str, threads))})))\n" if threads else ""
        return self.declared(f"{bounds}__kernel void {symbol}", emitter.params)

    def axis(self, tag: str) -> str:
        unit, axis = tag.split(".")
        return f"get_{'group' if unit == 'blockIdx' else 'local'}_id({'xyz'.index(axis)})"

    def barrier(self, scope: str) -> str:
        if scope in ("shared", "shared.dyn", "warp"):
            return "barrier(CLK_LOCAL_MEM_FENCE);"
        if scope == "global":
            return "barrier(CLK_GLOBAL_MEM_FENCE);"
        raise Refused(f'there is no barrier for memory of scope {scope!r}; use "shared" or "global"')

    def atomic_add(self, pointer: Text, value: Text, dtype: DataType, scope: str) -> Text:
        return atomics.add(self, pointer, value, dtype, "__local" if scope == "shared" else "__global")


__all__ = ["OpenCL"]
