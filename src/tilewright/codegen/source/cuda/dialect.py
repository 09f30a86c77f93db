"""The dialect of CUDA C."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.codegen.source.cuda import assembly, fragments, warpgroups
from tilewright.codegen.source.cuda.types import HEADERS, INLINE, SCALARS, Vectors, floating
from tilewright.codegen.source.device.calls import scope_of
from tilewright.codegen.source.device.dialect import Dialect, Refused, Rule
from tilewright.codegen.source.text.identifiers import Language, Names
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.ir import DataType
from tilewright.tir.transform.types.legalize import computed_in_float32

if TYPE_CHECKING:
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call, PrimFunc, Var

_WORDS = """alignas alignof asm auto bool break case catch char class const constexpr const_cast continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto half if inline int long mutable namespace new
    noexcept nullptr operator private protected public register reinterpret_cast return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile while main NAN INFINITY threadIdx blockIdx blockDim gridDim warpSize and or not xor bitand bitor compl"""
_LIBRARY = """abs max min exp exp2 exp10 log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh
    sqrt rsqrt cbrt pow floor ceil trunc round rint nearbyint fabs fma fmod erf erfc hypot ldexp copysign nextafter isnan isinf
    isfinite printf malloc free memcpy memset assert clock y0 y1 j0 j1 yn jn gamma maximum minimum select floordiv floormod norm"""
_MATH = """exp exp2 exp10 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt pow floor ceil
    trunc fabs fma fmod erf erfc hypot copysign nextafter atan2"""
_FAST = {
    "exp": "__expf", "exp10": "__exp10f", "log": "__logf", "log2": "__log2f", "log10": "__log10f", "sin": "__sinf",
    "cos": "__cosf", "tan": "__tanf", "pow": "__powf",
}  # fmt: skip
_EXTREME = {"max": ("maximum", "larger", ">"), "min": ("minimum", "smaller", "<")}
_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_SIGNED = {"+": "+", "-": "-", "*": "*", "/": "/"}


class Cuda(Dialect):
    """CUDA C for one architecture."""

    name: ClassVar[str] = "CUDA C"
    identifiers: ClassVar[Language] = Language(
        frozenset(_WORDS.split()),
        frozenset(_LIBRARY.split()),
        re.compile(
            r"_|(make_)?(u?(char|short|int|long|longlong)|float|double|half|bfloat)\d+$|cp_async|w?g?mma_|ldmatrix|mbarrier|tma_load|tensor_map"
        ),
    )
    scalars: ClassVar[Mapping[str, str]] = SCALARS
    inline: ClassVar[str] = INLINE
    wide: ClassVar[str] = "ll"
    math: ClassVar[Mapping[str, str]] = {
        **{n: f"{n}f" for n in _MATH.split()}, "round": "rintf", "nearbyint": "rintf", "rint": "rintf"
    }  # fmt: skip
    fast_math: ClassVar[Mapping[str, str]] = _FAST
    rules: ClassVar[Mapping[str, Rule]] = {**assembly.RULES, **fragments.RULES}
    lane_counts: ClassVar[tuple[int, ...]] = (2, 3, 4, 8, 16)

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        super().__init__(attrs)
        self.vectors = Vectors(self.prelude)
        self.arch = architecture(str(attrs.get("arch", "sm_75")))

    def legal(self, func: PrimFunc) -> PrimFunc:
        """As for other languages; bfloat16 is kept in memory, and computed in float32."""
        return super().legal(computed_in_float32(func, "bfloat16"))

    # --- types and literals

    def scalar(self, dtype: DataType) -> str:
        if str(dtype) in HEADERS:
            self.prelude.line(HEADERS[str(dtype)])
        return super().scalar(dtype)

    def vector(self, dtype: DataType) -> str:
        self.check_lanes(dtype)
        self.scalar(dtype.element)
        return self.vectors.name(dtype)

    def floating(self, value: float, dtype: DataType) -> Text:
        return floating(value, dtype, self.prelude)

    # --- vectors

    def lane(self, text: Text, dtype: DataType, k: int) -> Text:
        return self.vectors.lane(text, dtype, k)

    def joined(self, dtype: DataType, lanes: Sequence[str]) -> Text:
        self.check_lanes(dtype)
        return self.vectors.joined(dtype, lanes)

    def splat(self, dtype: DataType, text: Text) -> Text:
        """A vector of equal lanes, by a function of one argument."""
        self.check_lanes(dtype)
        name, kind = self.vectors.name(dtype), self.scalar(dtype.element)
        if dtype.lanes > 4:
            fill = f"  {name} result;\n  #pragma unroll\n  for (int i = 0; i < {dtype.lanes}; ++i) result.lane[i] = a;\n  return result;"
        else:
            fill = f"  return {self.vectors.joined(dtype, ['a'] * dtype.lanes)};"
        self.prelude.define(f"splat_{name}", f"{INLINE} {name} splat_{name}({kind} a) {{\n{fill}\n}}")
        return Text(f"splat_{name}({text})")

    def sign(self, sign: str, a: Text, b: Text, dtype: DataType, strength: int) -> Text:
        if dtype.lanes > 1 and not (dtype == "float16x2" and sign in _SIGNED):
            self.vectors.lanewise(f"operator{sign}", dtype, [dtype, dtype], f"{{0}} {sign} {{1}}")
        return super().sign(sign, a, b, dtype, strength)

    def compared(self, sign: str, a: Text, b: Text, dtype: DataType) -> Text:
        truth = DataType("bool").with_lanes(dtype.lanes)
        name = self.vectors.lanewise(_COMPARED[sign], truth, [dtype, dtype], f"{{0}} {sign} {{1}}")
        return Text(f"{name}({a}, {b})")

    def select(self, condition: Text, a: Text, b: Text, dtype: DataType) -> Text:
        truth = DataType("bool").with_lanes(dtype.lanes)
        name = self.vectors.lanewise("select", dtype, [truth, dtype, dtype], "{0} ? {1} : {2}")
        return Text(f"{name}({condition}, {a}, {b})")

    def convert(self, text: Text, source: DataType, to: DataType) -> Text:
        if source == to:
            return text
        if to.lanes > 1:
            one = self._converted("{0}", source.element, to.element)
            name = self.vectors.lanewise(f"convert_{self.vector(to)}", to, [source], one)
            return Text(f"{name}({text})")
        made = self._converted(text.at(UNARY) if not to.is_bool else text.at(60), source, to)
        return Text(made, 50 if to.is_bool else UNARY)

    def _converted(self, text: str, source: DataType, to: DataType) -> str:
        """A scalar in another type. float16 and bfloat16 go by way of float."""
        if to.is_bool:
            if source.bits == 16 and source.is_float:
                return f"(float){text} != 0.0f"
            return f"{text} != 0"
        narrow = [t.is_float and t.bits == 16 for t in (source, to)]
        if any(narrow) and "float32" not in (source, to):
            return f"({self.scalar(to)})(float){text}"
        return f"({self.scalar(to)}){text}"

    def reinterpret(self, text: Text, source: DataType, to: DataType) -> Text:
        self.prelude.define(
            "bits_as",
            "// The bits of a value as another type.\n"
            f"template <typename T, typename S> {INLINE} T bits_as(S value) {{\n"
            '  static_assert(sizeof(T) == sizeof(S), "bits of another size");\n'
            "  T result;\n  memcpy(&result, &value, sizeof(T));\n  return result;\n}",
        )
        return Text(f"bits_as<{self.type(to)}>({text})")

    # --- functions

    def function(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        found = self.math.get(name)
        if found is None:
            raise Refused(f"CUDA C has no function {name}")
        if dtype.bits == 64:
            found = found.removesuffix("f") if name not in ("erf",) else "erf"
        elif self.fast and name in self.fast_math:
            found = self.fast_math[name]
        if dtype.lanes == 1:
            return Text(f"{found}({', '.join(args)})")
        holes = ", ".join([f"{{{k}}}" for k in range(len(args))])
        self.vectors.lanewise(name, dtype, [dtype] * len(args), f"{found}({holes})")
        return Text(f"{name}({', '.join(args)})")

    def extreme(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        word, adjective, sign = _EXTREME[name]
        if not dtype.is_float:
            if dtype.lanes > 1:
                cast = f"({self.scalar(dtype.element)})" if dtype.bits < 32 else ""
                self.vectors.lanewise(name, dtype, [dtype, dtype], f"{cast}{name}({{0}}, {{1}})")
            elif dtype.bits < 32:
                return Text(f"({self.scalar(dtype)}){name}({a}, {b})", UNARY)
            return Text(f"{name}({self.typed(a, dtype)}, {self.typed(b, dtype)})")
        self.scalar(dtype.element)
        self.prelude.define(
            word,
            f"// The {adjective} one; NaN where either is.\n"
            f"template <typename T> {INLINE} T {word}(T a, T b) {{\n"
            f"  return a {sign} b || a != a ? a : b;\n}}",
        )
        if dtype.lanes > 1:
            self.vectors.lanewise(word, dtype, [dtype, dtype], f"{word}({{0}}, {{1}})")
        return Text(f"{word}({a}, {b})")

    def floor_division(self, name: str, dtype: DataType, a: Text, b: Text) -> Text:
        body = (
            "  T q = a / b;\n  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;"
            if name == "floordiv"
            else "  T r = a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;"
        )
        what = "quotient, rounded down" if name == "floordiv" else "remainder; it has the sign of b"
        self.prelude.define(name, f"// The {what}.\ntemplate <typename T> {INLINE} T {name}(T a, T b) {{\n{body}\n}}")
        if dtype.lanes > 1:
            kind = self.scalar(dtype.element)
            self.vectors.lanewise(name, dtype, [dtype, dtype], f"{name}<{kind}>({{0}}, {{1}})")
            return Text(f"{name}({a}, {b})")
        kind = f"<{self.scalar(dtype)}>" if dtype.bits != 32 else ""
        return Text(f"{name}{kind}({a}, {b})")

    def dot(self, e: Call, a: Text, b: Text, c: Text) -> Text:
        if e.args[0].dtype.is_int != e.args[1].dtype.is_int or self.arch < 61:
            return super().dot(e, a, b, c)
        return Text(f"__dp4a({a}, {b}, {c})")

    def count_bits(self, name: str, dtype: DataType, a: Text) -> Text:
        wide = dtype.bits == 64
        if name == "popcount":
            text = (
                a
                if dtype.is_uint or dtype.bits >= 32
                else Text(f"({SCALARS[f'uint{dtype.bits}']}){a.at(UNARY)}", UNARY)
            )
            return Text(f"__popc{'ll' if wide else ''}({text})")
        if dtype.bits < 32:
            unsigned = Text(f"({SCALARS[f'uint{dtype.bits}']}){a.at(UNARY)}", UNARY)
            return Text(f"__clz({unsigned}) - {32 - dtype.bits}", 70)
        return Text(f"__clz{'ll' if wide else ''}({a})")

    # --- memory

    def qualifier(self, scope: str) -> str:
        return "__shared__ " if scope == "shared" else ""

    def constant(self, element: str, name: str, values: Sequence[str]) -> None:
        self.prelude.define(name, f"static __constant__ {element} {name}[{len(values)}] = {{{', '.join(values)}}};")

    def dynamic(self, name: str, element: str, emitter: KernelEmitter) -> str:
        aligned = warpgroups.ALIGNED if emitter.uses.tiled else 16
        emitter.top.append(f"  extern __shared__ __align__({aligned}) unsigned char {name}[];")
        return "unsigned char"

    def scalar_parameter(self, kind: str, name: str, place: int) -> str:
        return f"{kind} {name}"

    def pointer_parameter(self, element: str, name: str, const: bool, alone: bool, place: int) -> str:
        return f"{'const ' if const else ''}{element}* {'__restrict__ ' if alone else ''}{name}"

    def described_parameter(self, param: Var, names: Names) -> tuple[Text, str] | None:
        if scope_of(param) != warpgroups.SCOPE:
            return None
        warpgroups.define_tensor_map(self)
        name = Text(names.fresh(param.name))
        return name, f"const __grid_constant__ {warpgroups.TENSOR_MAP} {name}"

    def storage(
        self, emitter: KernelEmitter, scope: str, dtype: DataType, name: str, count: int, var: Var
    ) -> str | None:
        return fragments.storage(self, emitter, scope, dtype, name, count, var)

    # --- threads and kernels

    def head(self, emitter: KernelEmitter, symbol: str, threads: Sequence[int] | None) -> str:
        least = f", {emitter.min_blocks}" if emitter.min_blocks else ""
        bounds = f"__launch_bounds__({threads[0] * threads[1] * threads[2]}{least}) " if threads else ""
        return self.declared(f'extern "C" __global__ void {bounds}{symbol}', emitter.params)

    def axis(self, tag: str) -> str:
        return tag

    def barrier(self, scope: str) -> str:
        if scope in ("shared", "shared.dyn"):
            return "__syncthreads();"
        if scope == "warp":
            return "__syncwarp();"
        if scope == "global":
            self.prelude.line("#include <cooperative_groups.h>")
            return "cooperative_groups::this_grid().sync();"
        raise Refused(f'there is no barrier for memory of scope {scope!r}; use "shared", "warp" or "global"')

    def atomic_add(self, pointer: Text, value: Text, dtype: DataType, scope: str) -> Text:
        if str(dtype) == "int64":
            return Text(f"atomicAdd((unsigned long long*)({pointer}), (unsigned long long){value.at(UNARY)})")
        return Text(f"atomicAdd({pointer}, {value})")

    def shuffle(self, name: str, dtype: DataType, args: Sequence[Text]) -> Text:
        word = {"tvm_warp_shuffle": "", "tvm_warp_shuffle_up": "_up", "tvm_warp_shuffle_down": "_down"}[name]
        mask, value, which, width = args[:4]
        if dtype.bits < 16 or dtype.is_bool or dtype.lanes > 1:
            raise Refused(f"CUDA has no shuffles of {dtype}; cast the value to int32 first")
        return Text(f"__shfl{word}_sync({mask}, {value}, {which}, {width})")

    def active_mask(self) -> Text:
        return Text("__activemask()")

    def unroll(self, count: int) -> str:
        return "#pragma unroll" if count > 0 else "#pragma unroll 1"


def architecture(arch: str) -> int:
    """The number of an architecture: 80 of "sm_80", 90 of "sm_90a"."""
    found = re.search(r"\d+", arch)
    return int(found.group()) if found else 75


__all__ = ["Cuda", "architecture"]
