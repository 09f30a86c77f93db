"""The dialect of the Metal shading language."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tilewright.codegen.source.device.dialect import Dialect, Rule
from tilewright.codegen.source.device.refused import Refused
from tilewright.codegen.source.metal import simdgroup
from tilewright.codegen.source.text.identifiers import Language
from tilewright.codegen.source.text.operands import RELATION, UNARY, Text
from tilewright.ir import DataType
from tilewright.tir.transform.types.legalize import without_bfloat16

if TYPE_CHECKING:
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import PrimFunc, Var

_WORDS = """alignas alignof auto bool break case char class const constexpr constant continue decltype default device do double else enum
    explicit extern false float for fragment friend goto half if inline int kernel long mutable namespace new operator private
    protected public register return short signed size_t sizeof static static_assert struct switch template this thread threadgroup
    true try typedef typename uchar uint ulong union unsigned ushort using vertex virtual void volatile while main NAN INFINITY
    blockIdx threadIdx metal sampler texture array vec simd_lane"""
_LIBRARY = """abs max min clamp mix step sign exp exp2 exp10 log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh sinpi cospi sqrt rsqrt pow powr floor ceil trunc round rint fract fabs fma fmod fmax fmin ldexp frexp modf copysign isnan
    isinf isfinite select any all dot cross length distance normalize popcount clz ctz rotate erf maximum minimum floordiv floormod
    as_type precise fast simd_shuffle simd_sum"""
_MATH = """exp exp2 exp10 log log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt pow floor ceil
    trunc fabs fma fmod copysign atan2"""
_PRECISE_WORDS = (
    """exp exp2 exp10 log log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt pow"""
)
_PRECISE = frozenset(_PRECISE_WORDS.split())
SCALARS = {
    "bool": "bool", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint",
    "int64": "long", "uint64": "ulong", "float16": "half", "float32": "float", "handle": "void*",
}  # fmt: skip
ERF = """// The error function, by Abramowitz and Stegun's formula 7.1.26; the error is below 1.5e-7.
template <typename T> inline T erf(T x) {
  T t = 1.0f / (1.0f + 0.3275911f * fabs(x));
  T p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  return copysign(1.0f - p * precise::exp(-x * x), x);
}"""


LOG1P = """// log(1 + x), also for small x.
template <typename T> inline T log1p(T x) {
  T sum = 1.0f + x;
  return select(precise::log(sum) * x / (sum - 1.0f), x, sum == 1.0f);
}"""


class Metal(Dialect):
    """Metal."""

    name: ClassVar[str] = "Metal"
    identifiers: ClassVar[Language] = Language(
        frozenset(_WORDS.split()),
        frozenset(_LIBRARY.split()),
        re.compile(r"_|(packed_)?(u?(char|short|int|long)|float|half|bool)[234]$|simdgroup|atomic"),
    )
    scalars: ClassVar[Mapping[str, str]] = SCALARS
    math: ClassVar[Mapping[str, str]] = {
        **{n: n for n in _MATH.split()}, "round": "rint", "nearbyint": "rint", "rint": "rint", "erf": "erf",
        "log1p": "log1p", "erfc": "erfc", "hypot": "hypot",
    }  # fmt: skip
    fast_math: ClassVar[Mapping[str, str]] = {n: f"fast::{n}" for n in _PRECISE}
    rules: ClassVar[Mapping[str, Rule]] = simdgroup.RULES

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        super().__init__(attrs)
        self.uses_lane = False
        self.prelude.line("#include <metal_stdlib>")
        self.prelude.line("using namespace metal;")

    def legal(self, func: PrimFunc) -> PrimFunc:
        self.uses_lane = False
        return super().legal(without_bfloat16(func, named=True))

    def scalar(self, dtype: DataType) -> str:
        if str(dtype) == "float64":
            raise Refused("Metal has no float64; cast to float32")
        return super().scalar(dtype)

    def floating(self, value: float, dtype: DataType) -> Text:
        self.scalar(dtype.element)
        kind = np.float16 if dtype.bits == 16 else np.float32
        with np.errstate(over="ignore"):
            rounded = kind(value)
        if not math.isfinite(rounded):
            word = "NAN" if math.isnan(rounded) else "INFINITY"
            text = f"half({word})" if dtype.bits == 16 else word
            return Text(f"-{text}", UNARY) if rounded < 0 else Text(text)
        text = str(rounded)
        text = text if any([c in text for c in ".e"]) else f"{text}.0"
        return Text(text + ("h" if dtype.bits == 16 else "f"), UNARY if text.startswith("-") else 100)

    # --- vectors

    def lane(self, text: Text, dtype: DataType, k: int) -> Text:
        return Text(f"{text}.{'xyzw'[k]}")

    def joined(self, dtype: DataType, lanes: Sequence[str]) -> Text:
        return Text(f"{self.vector(dtype)}({', '.join(lanes)})")

    def splat(self, dtype: DataType, text: Text) -> Text:
        return Text(f"{self.vector(dtype)}({text})")

    def compared(self, sign: str, a: Text, b: Text, dtype: DataType) -> Text:
        return Text(f"{a.at(RELATION + 1)} {sign} {b.at(RELATION + 1)}", RELATION)

    def select(self, condition: Text, a: Text, b: Text, dtype: DataType) -> Text:
        return Text(f"select({b}, {a}, {condition})")

    def convert(self, text: Text, source: DataType, to: DataType) -> Text:
        if source == to:
            return text
        if to.lanes > 1:
            return Text(f"{self.vector(to)}({text})")
        if to.is_bool:
            return Text(f"{text.at(RELATION + 1)} != 0", RELATION)
        return Text(f"({self.scalar(to)}){text.at(UNARY)}", UNARY)

    def reinterpret(self, text: Text, source: DataType, to: DataType) -> Text:
        return Text(f"as_type<{self.type(to)}>({text})")

    # --- functions

    def function(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        if name == "erf":
            self.prelude.define("erf", ERF)
        elif name == "erfc":
            self.prelude.define("erf", ERF)
            return Text(f"1.0f - erf({args[0]})", 70)
        elif name == "log1p":
            self.prelude.define("log1p", LOG1P)
        elif name == "hypot":
            return self.function(
                "sqrt", dtype, [Text(f"{args[0].at(80)} * {args[0].at(81)} + {args[1].at(80)} * {args[1].at(81)}")]
            )
        if name not in self.math:
            raise Refused(
                f"Metal has no function {name}; write it with others, or call a function of your own with call_extern"
            )
        found = self.math[name]
        if name in _PRECISE:
            found = f"{'fast' if self.fast else 'precise'}::{found}"
        return Text(f"{found}({', '.join(args)})")

    def extreme(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        if not dtype.is_float:
            if dtype.lanes == 1:
                fit = self.narrowed if dtype.bits < 32 else self.typed
                a, b = fit(a, dtype), fit(b, dtype)
            return Text(f"{name}({a}, {b})")
        word, adjective, sign = ("maximum", "larger", ">") if name == "max" else ("minimum", "smaller", "<")
        self.prelude.define(
            word,
            f"// The {adjective} one; NaN where either is.\n"
            f"template <typename T> inline T {word}(T a, T b) {{ return select(b, a, (a {sign} b) | isnan(a)); }}",
        )
        return Text(f"{word}({a}, {b})")

    def floor_division(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        body = (
            "  T q = a / b;\n  return select(q, T(q - 1), (q * b != a) & ((a < 0) != (b < 0)));"
            if name == "floordiv"
            else "  T r = a % b;\n  return select(r, T(r + b), (r != 0) & ((r < 0) != (b < 0)));"
        )
        what = "quotient, rounded down" if name == "floordiv" else "remainder; it has the sign of b"
        self.prelude.define(name, f"// The {what}.\ntemplate <typename T> inline T {name}(T a, T b) {{\n{body}\n}}")
        kind = f"<{self.scalar(dtype)}>" if dtype.lanes == 1 and dtype.bits != 32 else ""
        return Text(f"{name}{kind}({a}, {b})")

    def count_bits(self, name: str, dtype: DataType, a: Text) -> Text:
        unsigned = self.scalar(DataType(f"uint{dtype.bits}"))
        return Text(f"(int){name}(({unsigned}){a.at(UNARY)})", UNARY)

    # --- memory

    def pointer(self, element: str, scope: str, const: bool = False) -> str:
        space = {"shared": "threadgroup", "global": "device", "constant": "constant"}.get(scope, "thread")
        return f"{space} {'const ' if const else ''}{element}*"

    def load(self, place: Text, dtype: DataType, scope: str, aligned: bool) -> Text | None:
        if aligned and dtype.lanes != 3:
            return super().load(place, dtype, scope, True)
        if dtype.is_bool or dtype.bits == 64:
            return None
        kind = self.vector(dtype)
        return Text(f"{kind}(*({self.pointer(f'packed_{kind}', scope, True)}){place.at(UNARY)})")

    def store(self, place: Text, value: Text, dtype: DataType, scope: str, aligned: bool) -> str | None:
        if aligned and dtype.lanes != 3:
            return super().store(place, value, dtype, scope, True)
        if dtype.is_bool or dtype.bits == 64:
            return None
        kind = f"packed_{self.vector(dtype)}"
        return f"*({self.pointer(kind, scope)}){place.at(UNARY)} = {kind}({value});"

    def qualifier(self, scope: str) -> str:
        return "threadgroup " if scope == "shared" else ""

    def constant(self, element: str, name: str, values: Sequence[str]) -> None:
        self.prelude.define(name, f"constant {element} {name}[{len(values)}] = {{{', '.join(values)}}};")

    def dynamic(self, name: str, element: str, emitter: KernelEmitter) -> str:
        emitter.params.append(f"threadgroup uchar* {name} [[threadgroup(0)]]")
        return "uchar"

    def scalar_parameter(self, kind: str, name: str, place: int) -> str:
        return f"constant {kind}& {name} [[buffer({place})]]"

    def pointer_parameter(self, element: str, name: str, const: bool, alone: bool, place: int) -> str:
        return f"device {'const ' if const else ''}{element}* {name} [[buffer({place})]]"

    def storage(
        self, emitter: KernelEmitter, scope: str, dtype: DataType, name: str, count: int, var: Var
    ) -> str | None:
        return simdgroup.storage(self, scope, dtype, name, count)

    # --- threads and kernels

    def head(self, emitter: KernelEmitter, symbol: str, threads: Sequence[int] | None) -> str:
        bounds = f"[[max_total_threads_per_threadgroup({threads[0] * threads[1] * threads[2]})]] " if threads else ""
        units = {tag.split(".")[0] for tag in emitter.axes}
        places = {"blockIdx": "threadgroup_position_in_grid", "threadIdx": "thread_position_in_threadgroup"}
        params = [*emitter.params, *[f"uint3 {unit} [[{place}]]" for unit, place in places.items() if unit in units]]
        if self.uses_lane:
            params.append("uint simd_lane [[thread_index_in_simdgroup]]")
        return self.declared(f"{bounds}kernel void {symbol}", params)

    def axis(self, tag: str) -> str:
        return tag

    def barrier(self, scope: str) -> str:
        if scope in ("shared", "shared.dyn"):
            return "threadgroup_barrier(mem_flags::mem_threadgroup);"
        if scope == "warp":
            return "simdgroup_barrier(mem_flags::mem_threadgroup);"
        if scope == "global":
            return "threadgroup_barrier(mem_flags::mem_device);"
        raise Refused(f'there is no barrier for memory of scope {scope!r}; use "shared", "warp" or "global"')

    def atomic_add(self, pointer: Text, value: Text, dtype: DataType, scope: str) -> Text:
        kinds = {"int32": "atomic_int", "uint32": "atomic_uint", "float32": "atomic_float"}
        kind = kinds.get(str(dtype))
        if kind is None or kind == "atomic_float" and scope != "global":
            raise Refused(f"Metal has no atomic addition of {dtype} in {scope} memory; add to int32 or uint32")
        place = f"({self.pointer(kind, scope)}){pointer.at(UNARY)}"
        return Text(f"atomic_fetch_add_explicit({place}, {value}, memory_order_relaxed)")

    def shuffle(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        _, value, which, width, warp = args[:5]
        if name != "tvm_warp_shuffle":
            return Text(f"simd_shuffle{name.removeprefix('tvm_warp_shuffle')}({value}, {which})")
        self.uses_lane = True
        return Text(f"simd_shuffle({value}, simd_lane / {width.at(81)} * {width.at(81)} + {which.at(71)})")


__all__ = ["Metal"]
