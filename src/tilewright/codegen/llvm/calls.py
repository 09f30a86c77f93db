"""Intrinsics and calls to LLVM IR text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.codegen.llvm.stmt import StmtEmitter
from tilewright.codegen.llvm.types import float_const, int_literal, is_literal, llvm_type, memory_type, splat
from tilewright.codegen.llvm.types import symbol as quoted
from tilewright.codegen.llvm.vecmath import INTRINSICS, LIBM, VECTOR_FUNCTIONS
from tilewright.ir import DataType, FloatImm, GlobalVar, IntImm, PrimExpr
from tilewright.tir import Broadcast, BufferLoad, Call, StringImm, Var
from tilewright.tir.scalars import BITWISE, wrap_int

_F32, _F64 = DataType("float32"), DataType("float64")
C_FUNCTION = " nounwind willreturn memory(none)"
"""How declarations of C library functions end."""


def _native(dtype: DataType) -> str:
    """The type that LLVM's own intrinsics have for values of a type."""
    return llvm_type(dtype).replace("i16", "bfloat") if dtype.code == "bfloat" else llvm_type(dtype)


class CallEmitter(StmtEmitter):
    """The part of a function's emitter that turns calls into text."""

    _calls: ClassVar[dict[str, Callable[..., str]]] = {}

    def on_call(self, e: Call) -> str:
        if isinstance(e.op, GlobalVar):
            return self.call_function(e)
        name = e.intrinsic
        method = self._calls.get(name)
        if method is not None:
            return method(self, e)
        if name in INTRINSICS or name in VECTOR_FUNCTIONS or name in LIBM:
            return self._math(name, e)
        raise self.error(f"the LLVM back end has no rule for the intrinsic tir.{name}", e)

    # --- mathematics

    def _math(self, name: str, e: Call) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            raise self.error(f"{name} takes floating point values, but was given {dtype}", e)
        if dtype.bits < 32:
            wide = _F32.with_lanes(dtype.lanes)
            args = [self.convert(self.expr(arg), arg.dtype, wide) for arg in e.args]
            return self.convert(self.function(name, args, wide, e), wide, dtype)
        return self.function(name, [self.expr(arg) for arg in e.args], dtype, e)

    def function(self, name: str, args: list[str], dtype: DataType, e: Call) -> str:
        """A mathematical function of float32 or float64 operands."""
        m = self.math(dtype)
        if name in INTRINSICS:
            return m.unary(INTRINSICS[name], args[0])
        if dtype.bits == 32:
            if name == "pow":
                return self._power(m, args, e)
            if name in VECTOR_FUNCTIONS:
                return VECTOR_FUNCTIONS[name](m, *args)
        elif name in ("sigmoid", "rsqrt"):
            one = m.c(1.0)
            if name == "rsqrt":
                return m.div(one, m.unary("sqrt", args[0]))
            return m.div(one, m.add(one, self.libm("exp", [m.neg(args[0])], dtype)))
        elif name == "exp10":
            return self.libm("pow", [m.c(10.0), args[0]], dtype)
        return self.libm(name, args, dtype)

    def _power(self, m: Any, args: list[str], e: Call) -> str:
        exponent = e.args[1].value if isinstance(e.args[1], Broadcast) else e.args[1]
        x = args[0]
        if isinstance(exponent, FloatImm):
            value = exponent.value
            if value == 2.0:
                return str(m.mul(x, x))
            if value == 3.0:
                return str(m.mul(m.mul(x, x), x))
            if value == 1.0:
                return x
            if value == -1.0:
                return str(m.div(m.c(1.0), x))
            if value == 0.5:
                return str(m.unary("sqrt", m.add(x, m.c(0.0))))
        return str(m.pow(x, args[1]))

    def libm(self, name: str, args: list[str], dtype: DataType) -> str:
        """A C library function, lane by lane."""
        symbol = name + ("f" if dtype.bits == 32 else "")
        t = llvm_type(dtype.element)
        params = ", ".join([t] * len(args))
        self.b.declare.setdefault(symbol, f"declare {t} @{symbol}({params}){C_FUNCTION}")
        if dtype.lanes == 1:
            return self.b.pure(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in args)})", *args)
        lanes = []
        for k in range(dtype.lanes):
            each = [self.lane(a, dtype, k) for a in args]
            lanes.append(self.b.pure(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in each)})", *each))
        return self.gather_lanes(lanes, dtype)

    def on_copysign(self, e: Call) -> str:
        return self.math(e.dtype).binary("copysign", *map(self.expr, e.args))

    def on_fma(self, e: Call) -> str:
        a, b, c = map(self.expr, e.args)
        if not e.dtype.is_float:
            t = llvm_type(e.dtype)
            product = self.b.pure(f"mul {t} {a}, {b}", a, b)
            return self.b.pure(f"add {t} {product}, {c}", product, c)
        return self.math(e.dtype).fma(a, b, c)

    def on_ldexp(self, e: Call) -> str:
        x, n = self.expr(e.args[0]), self.expr(e.args[1])
        t, i = llvm_type(e.dtype), llvm_type(e.args[1].dtype)
        name = f"llvm.ldexp.{self._suffix(e.dtype)}.{self._suffix(e.args[1].dtype)}"
        return self.b.call(f"{t}({t}, {i})", name, f"{t} {x}, {i} {n}", x, n)

    def on_classify(self, e: Call) -> str:
        x, dtype = self.expr(e.args[0]), e.args[0].dtype
        if not dtype.is_float:
            return splat(e.dtype, "1" if e.intrinsic == "isfinite" else "0")
        wide = dtype if dtype.bits >= 32 else _F32.with_lanes(dtype.lanes)
        x = self.convert(x, dtype, wide)
        m = self.math(wide)
        if e.intrinsic == "isnan":
            return m.cmp("uno", x, x)
        return m.cmp("oeq" if e.intrinsic == "isinf" else "one", m.unary("fabs", x), m.c(float("inf")))

    # --- bits

    def on_bitwise(self, e: Call) -> str:
        operation, dtype = BITWISE[e.intrinsic], e.dtype
        a, b = map(self.expr, e.args)
        # Shifts beyond the type are not defined.
        if (
            is_literal(a)
            and is_literal(b)
            and dtype.lanes == 1
            and (operation.word[0] != "s" or 0 <= int(b) < dtype.bits)
        ):
            return int_literal(operation.integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        op = ("ashr" if dtype.is_int else "lshr") if operation.word == "shr" else operation.word
        return self.b.pure(f"{op} {llvm_type(dtype)} {a}, {b}", a, b)

    on_shift = on_bitwise

    def on_bitwise_not(self, e: Call) -> str:
        a = self.expr(e.args[0])
        return self.b.pure(f"xor {llvm_type(e.dtype)} {a}, {splat(e.dtype, '-1')}", a)

    def on_popcount(self, e: Call) -> str:
        a, t = self.expr(e.args[0]), llvm_type(e.args[0].dtype)
        r = self.b.call(f"{t}({t})", f"llvm.ctpop.{self._suffix(e.args[0].dtype)}", f"{t} {a}", a)
        return self.convert(r, e.args[0].dtype, e.dtype)

    def on_clz(self, e: Call) -> str:
        a, t = self.expr(e.args[0]), llvm_type(e.args[0].dtype)
        name = f"llvm.ctlz.{self._suffix(e.args[0].dtype)}"
        return self.convert(self.b.call(f"{t}({t}, i1)", name, f"{t} {a}, i1 0", a), e.args[0].dtype, e.dtype)

    def on_reinterpret(self, e: Call) -> str:
        a, source = self.expr(e.args[0]), e.args[0].dtype
        s, t = llvm_type(source), llvm_type(e.dtype)
        if s == t:
            return a
        if "ptr" in (s, t):
            return self.b.pure(f"{'ptrtoint' if s == 'ptr' else 'inttoptr'} {s} {a} to {t}", a)
        return self.b.pure(f"bitcast {s} {a} to {t}", a)

    def on_large_uint(self, e: Call) -> str:
        low, high = e.args
        assert isinstance(low, IntImm) and isinstance(high, IntImm)
        return int_literal((high.value << 32) | low.value, e.dtype)

    def on_q_multiply_shift(self, e: Call) -> str:
        """round(x * y * 2**-s / 2**q) as classic: ties away from zero upward, in 64 bits."""
        x, y = map(self.expr, e.args[:2])
        q, shift = e.args[2], e.args[3]
        lanes = e.dtype.lanes
        places: Any = [a.value if type(a) is Broadcast else a for a in (q, shift)]
        known = [a.value if isinstance(a, IntImm) else None for a in places]
        if known == [31, 0] and lanes % 2 == 0 and e.dtype.is_int and e.dtype.bits == e.args[1].dtype.bits == 32:
            return self._fraction_product(x, y, e.dtype)
        i64 = DataType("int64").with_lanes(lanes)
        t64, p = llvm_type(i64), self.b.pure
        wide_x, wide_y = self.convert(x, e.dtype, i64), self.convert(y, e.args[1].dtype, i64)
        q_wide, s_wide = self.convert(self.expr(q), q.dtype, i64), self.convert(self.expr(shift), shift.dtype, i64)
        zero = splat(i64, "0")
        negated = p(f"sub {t64} {zero}, {s_wide}", s_wide)
        left = self.b.call(
            f"{t64}({t64}, {t64})", f"llvm.smax.{self._suffix(i64)}", f"{t64} {negated}, {t64} {zero}", negated
        )
        right = self.b.call(
            f"{t64}({t64}, {t64})", f"llvm.smax.{self._suffix(i64)}", f"{t64} {s_wide}, {t64} {zero}", s_wide
        )
        product = p(f"mul {t64} {wide_x}, {wide_y}", wide_x, wide_y)
        product = p(f"shl {t64} {product}, {left}", product, left)
        total = p(f"add {t64} {q_wide}, {right}", q_wide, right)
        less = p(f"sub {t64} {total}, {splat(i64, '1')}", total)
        half = p(f"shl {t64} {splat(i64, '1')}, {less}", less)
        rounded = p(f"add {t64} {product}, {half}", product, half)
        return self.convert(p(f"ashr {t64} {rounded}, {total}", rounded, total), i64, e.dtype)

    def _fraction_product(self, x: str, y: str, dtype: DataType) -> str:
        """round(x * y / 2**31) of int32 vectors, ties upwards. Odd and even lanes are multiplied apart, where they stand: processors have
        products of 32 bits into 64 for those, and nothing needs to be widened or narrowed."""
        half = DataType("int64").with_lanes(dtype.lanes // 2)
        t, t64, p = llvm_type(dtype), llvm_type(half), self.b.pure
        up = splat(half, "32")

        def lanes(v: str) -> tuple[str, str]:
            pairs = p(f"bitcast {t} {v} to {t64}", v)
            left = p(f"shl {t64} {pairs}, {up}", pairs)
            return p(f"ashr {t64} {left}, {up}", left), p(f"ashr {t64} {pairs}, {up}", pairs)

        def rounded(a: str, b: str, move: str, by: str) -> str:
            product = p(f"mul {t64} {a}, {b}", a, b)
            product = p(f"add {t64} {product}, {splat(half, str(1 << 30))}", product)
            product = p(f"{move} {t64} {product}, {splat(half, by)}", product)
            return p(f"bitcast {t64} {product} to {t}", product)

        (x_even, x_odd), (y_even, y_odd) = lanes(x), lanes(y)
        even, odd = rounded(x_even, y_even, "lshr", "31"), rounded(x_odd, y_odd, "shl", "1")
        order = ", ".join([f"i32 {k + dtype.lanes * (k % 2)}" for k in range(dtype.lanes)])
        return p(f"shufflevector {t} {even}, {t} {odd}, <{dtype.lanes} x i32> <{order}>", even, odd)

    # --- choices and addresses

    def on_choose(self, e: Call) -> str:
        condition, a, b = e.args
        cond = self.expr(condition)
        if is_literal(cond):
            return self.expr(a if cond != "0" else b)
        t = llvm_type(e.dtype)
        if self.speculates(a) and self.speculates(b):
            x, y = self.expr(a), self.expr(b)
            return self.b.pure(f"select i1 {cond}, {t} {x}, {t} {y}", cond, x, y)
        padded = self._padded_load(cond, a, b) or self._padded_load(cond, b, a, swapped=True)
        if padded is not None:
            return padded
        return self.lazy(cond, lambda: self.expr(a), lambda: self.expr(b), e.dtype)

    def _padded_load(self, cond: str, load: PrimExpr, other: PrimExpr, swapped: bool = False) -> str | None:
        """`load if cond else constant` without a branch: the address is chosen, the constant lies in memory."""
        if not isinstance(load, BufferLoad) or load.predicate is not None or load.buffer.data in self.registers:
            return None
        element = other.value if isinstance(other, Broadcast) else other
        if not isinstance(element, (IntImm, FloatImm)) or load.dtype.is_bool:
            return None
        if not all([self.speculates(index) for index in load.indices]):
            return None
        form = self.offset_form(load.buffer, load.indices)
        lanes = load.dtype.lanes
        if form is None or load.buffer.dtype.lanes != 1 or (lanes > 1 and form.stride != 1):
            return None
        size = load.buffer.dtype.bytes
        pointer, const, align = self.address(load.buffer.data, form, size)
        literal = (
            int_literal(element.value, element.dtype)
            if isinstance(element, IntImm)
            else float_const(element.dtype, element.value)
        )
        other_value = f"{pointer}+{const}:{load.dtype} if {cond} is {int(not swapped)} else {literal}"
        return self.remembered(
            load.buffer.data,
            other_value,
            lambda: (
                self._masked_whole(cond, pointer, const, align, load.dtype, literal)
                if self.target.cpu.avx512 and lanes > 1 and not swapped
                else self._load_of_two(cond, pointer, const, align, load.dtype, literal, swapped)
            ),
        )

    def _masked_whole(self, cond: str, pointer: str, const: int, align: int, dtype: DataType, literal: str) -> str:
        """A vector of which all lanes are read, or none: a mask costs nothing, and is made where the condition is."""
        n, p = dtype.lanes, self.b.pure
        first = p(f"insertelement <{n} x i1> poison, i1 {cond}, i32 0", cond)
        zeros = ", ".join(["i32 0"] * n)
        mask = p(f"shufflevector <{n} x i1> {first}, <{n} x i1> poison, <{n} x i32> <{zeros}>", first)
        return self.masked_load_at(pointer, const, align, dtype, mask, splat(dtype, literal))

    def _load_of_two(
        self, cond: str, pointer: str, const: int, align: int, dtype: DataType, literal: str, swapped: bool
    ) -> str:
        """A load from the buffer, or from the constant in memory."""
        fallback = self.splat_constant(dtype, literal)
        at = self.place(pointer, const)
        first, second = (fallback, at) if swapped else (at, fallback)
        chosen = self.b.here(f"select i1 {cond}, ptr {first}, ptr {second}")
        total = dtype.bytes * dtype.lanes
        align = max(1, min(align, total & -total, 64))
        return self.b.here(f"load {memory_type(dtype)}, ptr {chosen}, align {align}")

    def on_address_of(self, e: Call) -> str:
        load = e.args[0]
        if not isinstance(load, BufferLoad):
            raise self.error("address_of takes a buffer element", e)
        form = self.offset_form(load.buffer, load.indices)
        if form is None:
            raise self.error("address_of takes a single element or a ramp", e)
        pointer, const, _ = self.address(load.buffer.data, form, load.buffer.dtype.bytes * load.buffer.dtype.lanes)
        return self.place(pointer, const)

    def on_access_ptr(self, e: Call) -> str:
        annotation, data, offset = e.args[0], e.args[1], e.args[2]
        assert isinstance(data, Var)
        form = self.affine.scalar(offset)
        if form is None:
            raise self.error("tvm_access_ptr takes a scalar offset", e)
        pointer, const, _ = self.address(data, form, annotation.dtype.bytes * annotation.dtype.lanes)
        return self.place(pointer, const)

    def on_byte_offset(self, e: Call) -> str:
        base, offset = e.args
        value = self.expr(offset)
        if is_literal(value):
            value = value if is_literal(value) else value
        else:
            value = self._resize(value, llvm_type(offset.dtype), self.iptr, True)
        pointer = self.expr(base)
        return (
            pointer
            if value == "0"
            else self.b.pure(f"getelementptr i8, ptr {pointer}, {self.iptr} {value}", pointer, value)
        )

    def on_is_null(self, e: Call) -> str:
        a = self.expr(e.args[0])
        return self.b.pure(f"icmp eq ptr {a}, null", a)

    # --- calls

    def on_extern(self, e: Call) -> str:
        assert isinstance(e.args[0], StringImm)
        return self.c_call(e.args[0].value, e.dtype, e.args[1:], e.intrinsic == "call_pure_extern")

    def c_call(self, symbol: str, dtype: DataType, args: tuple[PrimExpr, ...], pure: bool) -> str:
        """A call of a C function."""
        operands = [self.expr(arg) for arg in args]
        types = [llvm_type(arg.dtype) for arg in args]
        t = llvm_type(dtype)
        self.b.declare.setdefault(symbol, f"declare {t} @{quoted(symbol)}({', '.join(types)})")
        text = f"call {t} @{quoted(symbol)}({', '.join(f'{ty} {op}' for ty, op in zip(types, operands, strict=True))})"
        if not pure:
            self.forget(None)
        if t == "void":
            self.b.effect(text)
            return "0"
        return self.b.here(text)

    def on_llvm(self, e: Call) -> str:
        name = e.args[0]
        if not isinstance(name, StringImm):
            raise self.error("call_llvm_intrin takes the full name of an LLVM intrinsic as a string", e)
        pure = e.intrinsic == "call_llvm_pure_intrin"
        if "bfloat16" not in f"{e.dtype}{[a.dtype for a in e.args[1:]]}":
            return self.c_call(name.value, e.dtype, e.args[1:], pure)
        # bfloat16 is held as its bits; LLVM's intrinsics have a type for it.
        types = [_native(a.dtype) for a in e.args[1:]]
        operands = [self._as(self.expr(a), llvm_type(a.dtype), t) for a, t in zip(e.args[1:], types, strict=True)]
        result = _native(e.dtype)
        self.b.declare.setdefault(name.value, f"declare {result} @{quoted(name.value)}({', '.join(types)})")
        given = ", ".join(f"{t} {x}" for t, x in zip(types, operands, strict=True))
        text = f"call {result} @{quoted(name.value)}({given})"
        if not pure:
            self.forget(None)
            return self._as(self.b.here(text), result, llvm_type(e.dtype))
        return self._as(self.b.pure(text, *operands), result, llvm_type(e.dtype))

    def _as(self, operand: str, have: str, want: str) -> str:
        """The same bits as a value of another type."""
        return operand if have == want else self.b.pure(f"bitcast {have} {operand} to {want}", operand)

    def on_prefetch(self, e: Call) -> str:
        pointer = self.expr(e.args[0])
        rw, locality, cache = [str(a.value) if isinstance(a, IntImm) else "1" for a in (*e.args[1:4],)] or [
            "0",
            "2",
            "1",
        ]
        self.b.declare.setdefault("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.b.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {rw}, i32 {locality}, i32 {cache})")
        return "0"

    def on_nothing(self, e: Call) -> str:
        return "0"

    def on_likely(self, e: Call) -> str:
        return self.expr(e.args[0])

    def on_return(self, e: Call) -> str:
        self.return_value(self.expr(e.args[0]), e)
        return "0"

    def on_undefined(self, e: Call) -> str:
        return "poison"

    def on_vector_half(self, e: Call) -> str:
        value, dtype, n = self.expr(e.args[-1]), e.args[-1].dtype, e.dtype.lanes
        start = 0 if e.intrinsic == "vectorlow" else dtype.lanes - n
        t = llvm_type(dtype)
        mask = ", ".join(f"i32 {start + k}" for k in range(n))
        return self.b.pure(f"shufflevector {t} {value}, {t} poison, <{n} x i32> <{mask}>", value)

    def on_vector_combine(self, e: Call) -> str:
        a, b, n = self.expr(e.args[0]), self.expr(e.args[1]), e.dtype.lanes
        t = llvm_type(e.args[0].dtype)
        mask = ", ".join(f"i32 {k}" for k in range(n))
        return self.b.pure(f"shufflevector {t} {a}, {t} {b}, <{n} x i32> <{mask}>", a, b)

    # --- given by the function emitter

    def call_function(self, e: Call) -> str:
        raise self.error("calls are emitted by the function", e)

    def return_value(self, value: str, e: Any) -> None:
        raise self.error("returns are emitted by the function", e)

    def splat_constant(self, dtype: DataType, literal: str) -> str:
        raise self.error("constants are emitted by the module", None)
