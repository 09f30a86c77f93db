"""Expressions to LLVM IR text: constants, arithmetic, comparisons, casts, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.codegen.llvm.activations import gelu, one_plus, times_sigmoid
from tilewright.codegen.llvm.builder import FunctionBuilder
from tilewright.codegen.llvm.extremes import Extremes
from tilewright.codegen.llvm.narrow import clipped, saturated, to_narrow
from tilewright.codegen.llvm.types import bits_of, float_const, int_literal, is_literal, llvm_type, splat
from tilewright.codegen.llvm.vecmath import VectorMath
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, structural_equal
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import (
    EQ,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloorMod,
    Let,
    Min,
    Mod,
    Mul,
    Not,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.analysis.value_range import value_range
from tilewright.tir.scalars import BINARY, DIVISIONS, int_range, wrap_int

_F32 = DataType("float32")


class ExprEmitter:
    """The part of a function's emitter that turns expressions into operands."""

    b: FunctionBuilder
    target: Target
    name: str
    consts: dict[Var, int]
    ivs: dict[Var, str]
    values: dict[Var, str]
    ranges: dict[Var, tuple[int, int]]
    registers: dict[Var, Any]
    iptr: str

    _table: ClassVar[dict[type, Callable[..., str]]] = {}

    def expr(self, e: PrimExpr) -> str:
        """The operand that holds `e`."""
        method = self._table.get(type(e))
        if method is None:
            raise self.error(f"{type(e).__name__} is no lowered expression", e)
        return method(self, e)

    def error(self, message: str, node: Any) -> TVMError:
        """A TVMError that names the function and the node."""
        text = str(node)
        shown = text if len(text) < 400 else text[:400] + " ..."
        return TVMError(
            located(
                f"LLVM code generation of function {self.name!r}: {message}\n  in {type(node).__name__}: {shown}", node
            )
        )

    # --- leaves

    def lookup(self, var: Var) -> str:
        raise self.error(f"variable {var.name} is not defined here", var)

    def on_var(self, e: Var) -> str:
        const = self.consts.get(e)
        if const is not None:
            return int_literal(const, e.dtype)
        value = self.values.get(e)
        if value is None:
            iv = self.ivs.get(e)
            if iv is None:
                return self.lookup(e)
            value = self._resize(iv, self.iptr, llvm_type(e.dtype), True)
            self.values[e] = value
        return value

    def _resize(self, operand: str, source: str, to: str, signed: bool) -> str:
        """An integer in another width."""
        if source == to:
            return operand
        a, c = bits_of(source), bits_of(to)
        op = "trunc" if c < a else ("sext" if signed else "zext")
        return self.b.pure(f"{op} {source} {operand} to {to}", operand)

    def on_integer(self, e: IntImm) -> str:
        return int_literal(e.value, e.dtype)

    def on_float(self, e: FloatImm) -> str:
        return float_const(e.dtype, e.value)

    # --- arithmetic

    def _int_binary(self, e: Any) -> str:
        a, b, dtype, kind = self.expr(e.a), self.expr(e.b), e.dtype, type(e)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1:
            return int_literal(BINARY[kind].integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        t = llvm_type(dtype)
        if kind is Add:
            if a == "0" or b == "0":
                return b if a == "0" else a
            return self.b.pure(f"add {t} {a}, {b}", a, b)
        if kind is Sub:
            return a if b == "0" else self.b.pure(f"sub {t} {a}, {b}", a, b)
        if kind is Mul:
            if dtype.lanes == 1 and (a == "1" or b == "1"):
                return b if a == "1" else a
            return self.b.pure(f"mul {t} {a}, {b}", a, b)
        sign = "s" if dtype.is_int else "u"
        name = f"llvm.{sign}{'min' if kind is Min else 'max'}.{self._suffix(dtype)}"
        return self.b.call(f"{t}({t}, {t})", name, f"{t} {a}, {t} {b}", a, b)

    @staticmethod
    def _suffix(dtype: DataType) -> str:
        return f"{f'v{dtype.lanes}' if dtype.lanes > 1 else ''}{'f' if dtype.is_float else 'i'}{dtype.bits}"

    _maths: dict[DataType, VectorMath]
    extremes: Extremes

    def math(self, dtype: DataType) -> VectorMath:
        found = self._maths.get(dtype)
        if found is None:
            cpu = self.target.cpu
            wide = dtype.bits >= 32
            found = self._maths[dtype] = VectorMath(self.b, dtype, cpu.fma and wide, cpu.avx512 and wide)
        return found

    def on_add(self, e: Add) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        if dtype.code == "float" and self.contracts(dtype):
            if type(e.a) is Mul:
                return self.math(dtype).fma(self.expr(e.a.a), self.expr(e.a.b), self.expr(e.b))
            if type(e.b) is Mul:
                c = self.expr(e.a)
                return self.math(dtype).fma(self.expr(e.b.a), self.expr(e.b.b), c)
        return one_plus(self, e) or self._float_binary(e, "fadd")

    def on_subtract(self, e: Sub) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        if dtype.code == "float" and self.contracts(dtype) and not _same_products(e.a, e.b):
            m = self.math(dtype)
            if type(e.a) is Mul:
                return m.fma(self.expr(e.a.a), self.expr(e.a.b), m.neg(self.expr(e.b)))
            if type(e.b) is Mul:
                c = self.expr(e.a)
                return m.fma(m.neg(self.expr(e.b.a)), self.expr(e.b.b), c)
        return self._float_binary(e, "fsub")

    def on_multiply(self, e: Mul) -> str:
        if not e.dtype.is_float:
            return self._int_binary(e)
        return gelu(self, e) or times_sigmoid(self, e) or self._float_binary(e, "fmul")

    def contracts(self, dtype: DataType) -> bool:
        """Whether a * b + c is fused for this type."""
        cpu = self.target.cpu
        return cpu.fma and (dtype.bits >= 32 or cpu.fp16)

    def _float_binary(self, e: Any, op: str) -> str:
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.dtype
        if dtype.code != "float":
            a, b = self.widen(a, dtype), self.widen(b, dtype)
            t = llvm_type(_F32.with_lanes(dtype.lanes))
            return self.narrow(self.b.pure(f"{op} {t} {a}, {b}", a, b), dtype)
        t = llvm_type(dtype)
        return self.b.pure(f"{op} {t} {a}, {b}", a, b)

    def widen(self, a: str, dtype: DataType) -> str:
        """A bfloat16 operand as float32."""
        if dtype.code != "bfloat":
            raise TVMError(f"LLVM code generation of function {self.name!r}: no arithmetic on {dtype}; cast it first")
        i32, i16 = DataType("int32").with_lanes(dtype.lanes), llvm_type(dtype)
        t32, f32 = llvm_type(i32), llvm_type(_F32.with_lanes(dtype.lanes))
        w = self.b.pure(f"zext {i16} {a} to {t32}", a)
        w = self.b.pure(f"shl {t32} {w}, {splat(i32, '16')}", w)
        return self.b.pure(f"bitcast {t32} {w} to {f32}", w)

    def narrow(self, a: str, dtype: DataType) -> str:
        """A float32 operand rounded to bfloat16 (to nearest, ties to even; a NaN stays quiet).

        The instruction of AVX512-BF16 takes denormal numbers (below 1.2e-38) for zeros, as its products do. It is for whole vectors: LLVM
        (22) stops the process where its loop vectoriser meets one in a loop over scalars, and for some lanes that are no power of 2.
        """
        i32, i16 = DataType("int32").with_lanes(dtype.lanes), llvm_type(dtype)
        t32, f32 = llvm_type(i32), llvm_type(_F32.with_lanes(dtype.lanes))
        cond = llvm_type(DataType("bool").with_lanes(dtype.lanes))
        p = self.b.pure
        whole = dtype.lanes > 1 and dtype.lanes & (dtype.lanes - 1) == 0
        if whole and self.target.cpu.avx512_bf16 and self.target.cpu.avx512:
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

    def on_divide(self, e: Any) -> str:
        dtype, kind = e.dtype, type(e)
        if dtype.is_float:
            if kind is Div:
                return self._float_binary(e, "fdiv")
            if kind is Mod:
                return self._float_binary(e, "frem")
            raise self.error("floor division and modulo take integers", e)
        a, b = self.expr(e.a), self.expr(e.b)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1 and wrap_int(int(b), dtype):
            return int_literal(BINARY[kind].integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        t = llvm_type(dtype)
        divisor: Any = e.b.value if type(e.b) is Broadcast else e.b
        known = type(divisor) is IntImm and divisor.value not in (0, -1)
        emit: Callable[..., str] = self.b.pure if known else lambda text, *_: self.b.here(text)
        remainder = kind in (Mod, FloorMod)
        low = self.bounds(e.a)
        high = self.bounds(e.b)
        nonnegative = low is not None and low[0] >= 0 and high is not None and high[0] >= 0
        if not dtype.is_int or nonnegative:
            if known and divisor.value & (divisor.value - 1) == 0:
                if remainder:
                    return emit(f"and {t} {a}, {splat(dtype, int_literal(divisor.value - 1, dtype))}", a)
                shift = divisor.value.bit_length() - 1
                return a if shift == 0 else emit(f"lshr {t} {a}, {splat(dtype, str(shift))}", a)
            return emit(f"{'urem' if remainder else 'udiv'} {t} {a}, {b}", a, b)
        if kind in (Div, Mod):
            return emit(f"{'srem' if remainder else 'sdiv'} {t} {a}, {b}", a, b)
        if known and divisor.value > 0 and divisor.value & (divisor.value - 1) == 0:
            if remainder:
                return emit(f"and {t} {a}, {splat(dtype, int_literal(divisor.value - 1, dtype))}", a)
            return emit(f"ashr {t} {a}, {splat(dtype, str(divisor.value.bit_length() - 1))}", a)
        zero, cond = splat(dtype, "0"), llvm_type(DataType("bool").with_lanes(dtype.lanes))
        p = self.b.pure
        r = emit(f"srem {t} {a}, {b}", a, b)
        wrong = self._sign_differs(t, cond, r, b, zero)
        if remainder:
            fixed = p(f"add {t} {r}, {b}", r, b)
            return p(f"select {cond} {wrong}, {t} {fixed}, {t} {r}", wrong, fixed, r)
        q = emit(f"sdiv {t} {a}, {b}", a, b)
        one = p(f"zext {cond} {wrong} to {t}", wrong)
        return p(f"sub {t} {q}, {one}", q, one)

    def _sign_differs(self, t: str, cond: str, r: str, b: str, zero: str) -> str:
        """Whether a remainder is not zero and its sign is not the divisor's."""
        p = self.b.pure
        some = p(f"icmp ne {t} {r}, {zero}", r)
        signs = p(f"xor {t} {r}, {b}", r, b)
        other = p(f"icmp slt {t} {signs}, {zero}", signs)
        return p(f"and {cond} {some}, {other}", some, other)

    def on_extreme(self, e: Any) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        a, b = self.expr(e.a), self.expr(e.b)
        wide = dtype
        if dtype.code == "bfloat":
            a, b, wide = self.widen(a, dtype), self.widen(b, dtype), _F32.with_lanes(dtype.lanes)
        number = _is_number(e.b)
        # Parts of registers come from what was computed just before.
        late = type(e.b) is BufferLoad and e.b.buffer.data in self.registers
        if _is_number(e.a):
            a, b, number = b, a, True
        r = self.extremes.of(self.math(wide), type(e) is Min, a, b, number, late, self.target.cpu.extremes_keep_nan)
        return self.narrow(r, dtype) if wide is not dtype else r

    # --- conditions

    def on_compare(self, e: Any) -> str:
        operation = BINARY[type(e)]
        fold, word = operation.integers, operation.word
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.a.dtype
        if dtype.is_float:
            if dtype.code == "bfloat":
                a, b, dtype = self.widen(a, dtype), self.widen(b, dtype), _F32.with_lanes(dtype.lanes)
            return self.b.pure(f"fcmp {'u' if word == 'ne' else 'o'}{word} {llvm_type(dtype)} {a}, {b}", a, b)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1:
            return "1" if fold(wrap_int(int(a), dtype), wrap_int(int(b), dtype)) else "0"
        if dtype.is_int and dtype.lanes == 1 and (answer := self._decide(e, fold)) is not None:
            return answer
        sign = "" if word in ("eq", "ne") else "s" if dtype.is_int else "u"
        return self.b.pure(f"icmp {sign}{word} {llvm_type(dtype)} {a}, {b}", a, b)

    def _decide(self, e: Any, fold: Callable[[int, int], bool]) -> str | None:
        """The comparison's answer when the ranges of its sides tell it."""
        if type(e) in (EQ, NE):
            return None
        x, y = self.bounds(e.a), self.bounds(e.b)
        if x is None or y is None:
            return None
        answers = {fold(i, j) for i in x for j in y}
        return ("1" if answers.pop() else "0") if len(answers) == 1 else None

    def on_connect(self, e: Any) -> str:
        is_and = type(e) is And
        a = self.expr(e.a)
        if e.dtype.lanes == 1:
            if a == ("0" if is_and else "1"):
                return a
            if a == ("1" if is_and else "0"):
                return self.expr(e.b)
            if not self.speculates(e.b):
                return self.lazy(
                    a, lambda: self.expr(e.b) if is_and else "1", lambda: "0" if is_and else self.expr(e.b), e.dtype
                )
        b = self.expr(e.b)
        if e.dtype.lanes == 1 and is_literal(b):
            return a if b == ("1" if is_and else "0") else b
        return self.b.pure(f"{'and' if is_and else 'or'} {llvm_type(e.dtype)} {a}, {b}", a, b)

    def on_negate(self, e: Not) -> str:
        a = self.expr(e.a)
        if is_literal(a):
            return "0" if a != "0" else "1"
        return self.b.pure(f"xor {llvm_type(e.dtype)} {a}, {splat(e.dtype, '1')}", a)

    def on_select(self, e: Select) -> str:
        cond = self.expr(e.condition)
        if is_literal(cond):
            return self.expr(e.true_value if cond != "0" else e.false_value)
        a, b, t = self.expr(e.true_value), self.expr(e.false_value), llvm_type(e.dtype)
        return self.b.pure(f"select {llvm_type(e.condition.dtype)} {cond}, {t} {a}, {t} {b}", cond, a, b)

    def lazy(self, cond: str, then: Callable[[], str], other: Callable[[], str], dtype: DataType) -> str:
        """A value of which only the chosen side is computed."""
        b, t = self.b, llvm_type(dtype)
        results = []
        arms = []
        join = b.label("join")
        for side in (then, other):
            b.push(b.label("side"))
            results.append(side())
            arms.append(b.pop())
        name = b.name()
        phi = f"{name} = phi {t} [ {results[0]}, %{arms[0].label} ], [ {results[1]}, %{arms[1].label} ]"
        b.branch(cond, arms[0], arms[1], join, [phi])
        return b.define_here(name)

    def speculates(self, e: PrimExpr) -> bool:
        """Whether `e` may be computed although it is not wanted: no loads, no calls, no division by unknowns."""
        kind = type(e)
        if kind in (Var, SizeVar, IntImm, FloatImm, StringImm):
            return True
        if kind in (BufferLoad, Call, Let, Reduce, ProducerLoad, Shuffle):
            return False
        if kind in DIVISIONS and not (e.dtype.is_float or (type(e.b) is IntImm and e.b.value not in (0, -1))):  # type: ignore[attr-defined]
            return False
        if kind is Cast or kind is Broadcast:
            return self.speculates(e.value)  # type: ignore[attr-defined]
        if kind is Ramp:
            return self.speculates(e.base)  # type: ignore[attr-defined]
        if kind is Select:
            return all(map(self.speculates, (e.condition, e.true_value, e.false_value)))  # type: ignore[attr-defined]
        if kind is Not:
            return self.speculates(e.a)  # type: ignore[attr-defined]
        return self.speculates(e.a) and self.speculates(e.b)  # type: ignore[attr-defined]

    def bounds(self, e: PrimExpr) -> tuple[int, int] | None:
        """The range that a scalar or vector integer is known to lie in."""
        return value_range(e, self._known, wraps=False)

    def _known(self, var: Var) -> tuple[int, int] | None:
        const = self.consts.get(var)
        return (const, const) if const is not None else self.ranges.get(var)

    # --- casts and vectors

    def on_cast(self, e: Cast) -> str:
        held = clipped(e)
        if held is not None:
            value, low, high = held
            return saturated(self, self.expr(value), e.value.dtype, e.dtype, low, high)
        return self.convert(self.expr(e.value), e.value.dtype, e.dtype)

    def convert(self, a: str, source: DataType, to: DataType) -> str:
        """A value of one type as another: C's rounding, saturation where C leaves it open, NaN to 0 for integers."""
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
                return p(f"fcmp une {s} {a}, {splat(source, float_const(source, 0.0))}", a)
            if is_literal(a):
                return "0" if a == "0" else "1"
            return p(f"icmp ne {s} {a}, {splat(source, '0')}", a)
        if source.is_float and to.is_float:
            if source.bits == 64 and to.bits == 16:
                # No CPU does this in one step, and the library routine for it is not everywhere.
                wide = _F32.with_lanes(to.lanes)
                return self.convert(self.convert(a, source, wide), wide, to)
            return p(f"{'fpext' if to.bits > source.bits else 'fptrunc'} {s} {a} to {t}", a)
        if source.is_float:
            if to_narrow(source, to):
                return saturated(self, a, source, to, *int_range(to))
            sign = "s" if to.is_int else "u"
            name = f"llvm.fpto{sign}i.sat.{self._suffix(to)}.{self._suffix(source)}"
            return self.b.call(f"{t}({s})", name, f"{s} {a}", a)
        if to.is_float:
            return p(f"{'sitofp' if source.is_int else 'uitofp'} {s} {a} to {t}", a)
        if is_literal(a) and to.lanes == 1:
            return int_literal(wrap_int(int(a), source), to)
        if source.bits == to.bits:
            return a
        op = "trunc" if to.bits < source.bits else ("sext" if source.is_int else "zext")
        return p(f"{op} {s} {a} to {t}", a)

    def broadcast(self, a: str, dtype: DataType) -> str:
        """A scalar in every lane of `dtype`."""
        if a[0] != "%":
            return splat(dtype, a) if a[0] not in "@" else self._insert_splat(a, dtype)
        return self._insert_splat(a, dtype)

    def _insert_splat(self, a: str, dtype: DataType) -> str:
        t, s = llvm_type(dtype), llvm_type(dtype.element)
        first = self.b.pure(f"insertelement {t} poison, {s} {a}, i32 0", a)
        return self.b.pure(f"shufflevector {t} {first}, {t} poison, <{dtype.lanes} x i32> zeroinitializer", first)

    def on_broadcast(self, e: Broadcast) -> str:
        if e.value.dtype.lanes != 1:
            value, t, many = self.expr(e.value), llvm_type(e.value.dtype), e.dtype.lanes
            mask = ", ".join(f"i32 {k % e.value.dtype.lanes}" for k in range(many))
            return self.b.pure(f"shufflevector {t} {value}, {t} poison, <{many} x i32> <{mask}>", value)
        return self.broadcast(self.expr(e.value), e.dtype)

    def on_ramp(self, e: Ramp) -> str:
        dtype = e.dtype
        base, stride, t, s = self.expr(e.base), self.expr(e.stride), llvm_type(dtype), llvm_type(dtype.element)
        if is_literal(stride):
            step = int(stride)
            if is_literal(base):
                lanes = [int_literal(int(base) + k * step, dtype.element) for k in range(dtype.lanes)]
                return f"<{', '.join(f'{s} {k}' for k in lanes)}>"
            steps = f"<{', '.join(f'{s} {int_literal(k * step, dtype.element)}' for k in range(dtype.lanes))}>"
        else:
            counts = f"<{', '.join(f'{s} {k}' for k in range(dtype.lanes))}>"
            every = self.broadcast(stride, dtype)
            steps = self.b.pure(f"mul {t} {every}, {counts}", every)
        start = self.broadcast(base, dtype)
        return self.b.pure(f"add {t} {start}, {steps}", start, steps)

    def on_shuffle(self, e: Shuffle) -> str:
        lanes: list[tuple[str, DataType, int]] = []
        for vector in e.vectors:
            operand = self.expr(vector)
            lanes += [(operand, vector.dtype, k) for k in range(vector.dtype.lanes)]
        picks = []
        for index in e.indices:
            value = self.expr(index)
            if not is_literal(value):
                raise self.error("shuffle indices must be constants", e)
            picks.append(int(value))
        if len(e.vectors) <= 2 and len({v.dtype for v in e.vectors}) == 1 and e.vectors[0].dtype.lanes > 1:
            t = llvm_type(e.vectors[0].dtype)
            first = lanes[0][0]
            second = lanes[-1][0] if len(e.vectors) == 2 else "poison"
            if e.dtype.lanes == 1:
                operand, _, k = lanes[picks[0]]
                return self.b.pure(f"extractelement {t} {operand}, i32 {k}", operand)
            mask = f"<{len(picks)} x i32> <{', '.join(f'i32 {k}' for k in picks)}>"
            return self.b.pure(f"shufflevector {t} {first}, {t} {second}, {mask}", first, second)
        scalars = []
        for pick in picks:
            operand, dtype, k = lanes[pick]
            scalars.append(operand if dtype.lanes == 1 else self.lane(operand, dtype, k))
        return scalars[0] if e.dtype.lanes == 1 else self.gather_lanes(scalars, e.dtype)

    def lane(self, operand: str, dtype: DataType, k: int) -> str:
        """Lane `k` of a vector."""
        return self.b.pure(f"extractelement {llvm_type(dtype)} {operand}, i32 {k}", operand)

    def gather_lanes(self, scalars: list[str], dtype: DataType) -> str:
        """A vector made of scalars."""
        t, s = llvm_type(dtype), llvm_type(dtype.element)
        vector = "poison"
        for k, scalar in enumerate(scalars):
            vector = self.b.pure(f"insertelement {t} {vector}, {s} {scalar}, i32 {k}", vector, scalar)
        return vector

    def on_let(self, e: Let) -> str:
        self.bind(e.var, e.value)
        return self.expr(e.body)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Makes `var` stand for `value` from here on."""
        operand = self.expr(value)
        if is_literal(operand) and not var.dtype.is_float and var.dtype.code != "handle":
            self.consts[var] = wrap_int(int(operand), var.dtype)
            return
        self.consts.pop(var, None)
        self.values[var] = operand
        found = self.bounds(value) if value.dtype.is_int else None
        if found is not None:
            self.ranges[var] = found


def _is_number(e: PrimExpr) -> bool:
    """Whether a float, or one in every lane, is a literal that is not NaN."""
    value = e.value if type(e) is Broadcast else e
    return type(value) is FloatImm and value.value == value.value


def _same_products(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are products of the same factors. Fused, their difference would not be 0."""
    if type(a) is not Mul or type(b) is not Mul:
        return False
    return any([structural_equal(a.a, c) and structural_equal(a.b, d) for c, d in ((b.a, b.b), (b.b, b.a))])
