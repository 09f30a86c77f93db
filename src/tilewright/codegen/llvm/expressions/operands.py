"""LLVM IR text of conversions between types, and of operations on lanes of vectors."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.llvm.expressions.types import (
    float_const,
    int_literal,
    is_literal,
    llvm_type,
    memory_type,
    resized,
    splat,
    suffix,
)
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.ir import DataType
from tilewright.support.errors import TVMError
from tilewright.tir.scalars import int_range, wrap_int

_F32 = DataType("float32")


def to_narrow(source: DataType, to: DataType) -> bool:
    """Whether a conversion is of float32 vectors to integers of 8 or 16 bits."""
    return source.is_float and source.bits == 32 and to.lanes > 1 and 1 < to.bits < 32 and not to.is_float


class Operands:
    """Emits conversions and shuffles."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.b = frame, frame.b

    # --- types

    def comparable(self, a: str, dtype: DataType) -> tuple[str, DataType]:
        """A floating point value and its type as LLVM compares it: bfloat16 in float32. For WebAssembly, LLVM does not end when it compares
        vectors of half (LLVM 22)."""
        if dtype.code == "bfloat" or (dtype.bits == 16 and self.frame.target.cpu.arch == "wasm"):
            wide = _F32.with_lanes(dtype.lanes)
            return self.convert(a, dtype, wide), wide
        return a, dtype

    def convert(self, a: str, source: DataType, to: DataType) -> str:
        """A value converted to another type. Rounding as in C; integers saturate, and NaN becomes 0, where C defines nothing."""
        if source == to:
            return a
        if source.code == "bfloat":
            return self.convert(self.widen(a, source), _F32.with_lanes(source.lanes), to)
        if to.code == "bfloat":
            wide = _F32.with_lanes(to.lanes)
            return self.narrow(self.convert(a, source, wide), to)
        s, t = llvm_type(source), llvm_type(to)
        p = self.b.pure
        if source.code == "handle" or to.code == "handle":
            if source.code == to.code:
                return a
            return p(f"{'ptrtoint' if source.code == 'handle' else 'inttoptr'} {s} {a} to {t}", a)
        if to.is_bool:
            if source.is_float:
                a, source = self.comparable(a, source)
                s = llvm_type(source)
                return p(f"fcmp une {s} {a}, {splat(source, float_const(source, 0.0))}", a)
            if is_literal(a):
                return "0" if a == "0" else "1"
            return p(f"icmp ne {s} {a}, {splat(source, '0')}", a)
        if source.is_float and to.is_float:
            if source.bits == 64 and to.bits == 16:
                # No CPU has an instruction for this, and not every system has the library routine.
                wide = _F32.with_lanes(to.lanes)
                return self.convert(self.convert(a, source, wide), wide, to)
            return p(f"{'fpext' if to.bits > source.bits else 'fptrunc'} {s} {a} to {t}", a)
        if source.is_float:
            if source.bits == 16 and to.bits < 32:
                # Exact. LLVM 22 turns NaN into the lowest int16 where the CPU converts half itself (AVX512-FP16), and takes vectors apart.
                wide = _F32.with_lanes(source.lanes)
                return self.convert(self.convert(a, source, wide), wide, to)
            if to_narrow(source, to):
                return self.saturated(a, source, to, *int_range(to))
            sign = "s" if to.is_int else "u"
            return self.b.call(f"{t}({s})", f"llvm.fpto{sign}i.sat.{suffix(to)}.{suffix(source)}", f"{s} {a}", a)
        if to.is_float:
            return p(f"{'sitofp' if source.is_int else 'uitofp'} {s} {a} to {t}", a)
        if is_literal(a) and to.lanes == 1:
            return int_literal(wrap_int(int(a), source), to)
        if source.bits == to.bits:
            return a
        op = "trunc" if to.bits < source.bits else ("sext" if source.is_int else "zext")
        return p(f"{op} {s} {a} to {t}", a)

    def saturated(self, a: str, source: DataType, to: DataType, low: float, high: float) -> str:
        """float32 vectors clamped to [low, high] and converted to 8 or 16 bits. LLVM's saturating conversion would take vectors apart."""
        p, s, m = self.b.pure, llvm_type(source), self.frame.math(source)
        held = a
        for order, bound in (("ogt", low), ("olt", high)):
            # NaN comes out as the lower bound.
            limit = splat(source, float_const(source, float(bound)))
            held = m.select(m.cmp(order, held, limit), held, limit)
        wide, t = llvm_type(DataType("int32").with_lanes(to.lanes)), llvm_type(to)
        whole = p(f"fptosi {s} {held} to {wide}", held)
        narrow = p(f"trunc {wide} {whole} to {t}", whole)
        if not low:
            return narrow
        number = p(f"fcmp ord {s} {a}, {a}", a)
        return p(f"select <{to.lanes} x i1> {number}, {t} {narrow}, {t} {splat(to, '0')}", number, narrow)

    def widen(self, a: str, dtype: DataType) -> str:
        """A bfloat16 operand converted to float32."""
        if dtype.code != "bfloat":
            raise TVMError(
                f"LLVM code generation of function {self.frame.name!r}: no arithmetic on {dtype}; cast it first"
            )
        i32, i16 = DataType("int32").with_lanes(dtype.lanes), llvm_type(dtype)
        t32, f32 = llvm_type(i32), llvm_type(_F32.with_lanes(dtype.lanes))
        w = self.b.pure(f"zext {i16} {a} to {t32}", a)
        w = self.b.pure(f"shl {t32} {w}, {splat(i32, '16')}", w)
        return self.b.pure(f"bitcast {t32} {w} to {f32}", w)

    def narrow(self, a: str, dtype: DataType) -> str:
        """A float32 operand rounded to bfloat16 (to nearest, ties to even; a NaN stays quiet).

        The instruction of AVX512-BF16 treats denormal numbers (below 1.2e-38) as zeros, as its products do. It is used only for whole
        vectors: LLVM 22 aborts if its loop vectoriser meets it in a loop over scalars, and for some lanes that are not a power of 2.
        """
        i32, i16 = DataType("int32").with_lanes(dtype.lanes), llvm_type(dtype)
        t32, f32 = llvm_type(i32), llvm_type(_F32.with_lanes(dtype.lanes))
        cond = llvm_type(DataType("bool").with_lanes(dtype.lanes))
        p = self.b.pure
        whole = dtype.lanes > 1 and dtype.lanes & (dtype.lanes - 1) == 0
        if whole and self.frame.target.cpu.avx512_bf16 and self.frame.target.cpu.avx512:
            bfloat = i16.replace("i16", "bfloat")
            w = p(f"fptrunc {f32} {a} to {bfloat}", a)
            return p(f"bitcast {bfloat} {w} to {i16}", w)
        w = p(f"bitcast {f32} {a} to {t32}", a)
        odd = p(f"lshr {t32} {w}, {splat(i32, '16')}", w)
        odd = p(f"and {t32} {odd}, {splat(i32, '1')}", odd)
        r = p(f"add {t32} {w}, {splat(i32, '32767')}", w)
        r = p(f"add {t32} {r}, {odd}", r, odd)
        quiet = p(f"or {t32} {w}, {splat(i32, '4194304')}", w)
        nan = p(f"fcmp uno {f32} {a}, {a}", a)
        r = p(f"select {cond} {nan}, {t32} {quiet}, {t32} {r}", nan, quiet, r)
        r = p(f"lshr {t32} {r}, {splat(i32, '16')}", r)
        return p(f"trunc {t32} {r} to {i16}", r)

    def resize(self, operand: str, source: str, to: str, signed: bool) -> str:
        """An integer extended or truncated to another width."""
        return resized(self.b, operand, source, to, signed)

    def reinterpreted(self, operand: str, have: str, want: str) -> str:
        """An operand whose bits are reinterpreted as another type."""
        return operand if have == want else self.b.pure(f"bitcast {have} {operand} to {want}", operand)

    def from_memory_bool(self, value: str, dtype: DataType) -> str:
        return self.b.pure(
            f"icmp ne {memory_type(dtype)} {value}, {splat(DataType('int8').with_lanes(dtype.lanes), '0')}", value
        )

    def to_memory_bool(self, value: str, dtype: DataType) -> str:
        return self.b.pure(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}", value)

    # --- lanes

    def lane(self, operand: str, dtype: DataType, k: int) -> str:
        """Lane `k` of a vector."""
        return self.b.pure(f"extractelement {llvm_type(dtype)} {operand}, i32 {k}", operand)

    def gather(self, scalars: list[str], dtype: DataType) -> str:
        """A vector of the given scalars."""
        t, s = llvm_type(dtype), llvm_type(dtype.element)
        vector = "poison"
        for k, scalar in enumerate(scalars):
            vector = self.b.pure(f"insertelement {t} {vector}, {s} {scalar}, i32 {k}", vector, scalar)
        return vector

    def broadcast(self, a: str, dtype: DataType) -> str:
        """A scalar in every lane of `dtype`."""
        if a[0] != "%":
            return splat(dtype, a) if a[0] not in "@" else self._insert(a, dtype)
        return self._insert(a, dtype)

    def _insert(self, a: str, dtype: DataType) -> str:
        t, s = llvm_type(dtype), llvm_type(dtype.element)
        first = self.b.pure(f"insertelement {t} poison, {s} {a}, i32 0", a)
        return self.b.pure(f"shufflevector {t} {first}, {t} poison, <{dtype.lanes} x i32> zeroinitializer", first)

    def shuffled(self, a: str, b: str, t: str, lanes: Iterable[int | None]) -> str:
        """The given lanes of two vectors of type `t`. None: any value."""
        mask = ["i32 poison" if k is None else f"i32 {k}" for k in lanes]
        return self.b.pure(f"shufflevector {t} {a}, {t} {b}, <{len(mask)} x i32> <{', '.join(mask)}>", a, b)

    def joined(self, parts: list[str], dtype: DataType, lanes: int) -> str:
        """The first `lanes` lanes of the concatenation of vectors of one type."""
        count = dtype.lanes
        while len(parts) > 1:
            t = llvm_type(dtype.with_lanes(count))
            parts += ["poison"] * (len(parts) % 2)
            parts = [self.shuffled(a, b, t, range(2 * count)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            count *= 2
        return (
            parts[0]
            if count == lanes
            else self.shuffled(parts[0], "poison", llvm_type(dtype.with_lanes(count)), range(lanes))
        )
