"""LLVM IR text of functions of floats: by LLVM's intrinsics, by vector code, or by the C library."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import llvm_type, splat, suffix
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.vector_math.vecmath import INTRINSICS, LIBM, VECTOR_FUNCTIONS, VectorMath
from tilewright.ir import DataType, FloatImm
from tilewright.tir import Broadcast, Call
from tilewright.tir.op import ACTIVATIONS

_F32 = DataType("float32")
C_FUNCTION = " nounwind willreturn memory(none)"
"""The attributes in declarations of C library functions."""


class Functions:
    """Emits functions of floats."""

    def __init__(self, frame: Frame, operands: Operands, expressions: ExprEmitter) -> None:
        self.frame, self.operands, self.b, self.expr = frame, operands, frame.b, expressions.expr

    @staticmethod
    def has(name: str) -> bool:
        """Whether an intrinsic is one of these functions, with one rule for all types."""
        return name in INTRINSICS or name in VECTOR_FUNCTIONS or name in LIBM

    def math(self, name: str, e: Call) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            raise self.frame.error(f"{name} takes floating point values, but was given {dtype}", e)
        if name in ACTIVATIONS and dtype.element != _F32:
            raise self.frame.error(f"{name} takes float32 values, but was given {dtype}", e)
        if dtype.bits < 32:
            wide = _F32.with_lanes(dtype.lanes)
            args = [self.operands.convert(self.expr(arg), arg.dtype, wide) for arg in e.args]
            return self.operands.convert(self.function(name, args, wide, e), wide, dtype)
        return self.function(name, [self.expr(arg) for arg in e.args], dtype, e)

    def function(self, name: str, args: list[str], dtype: DataType, e: Call) -> str:
        """A mathematical function of float32 or float64 operands."""
        m = self.frame.math(dtype)
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

    def _power(self, m: VectorMath, args: list[str], e: Call) -> str:
        exponent = e.args[1].value if isinstance(e.args[1], Broadcast) else e.args[1]
        x = args[0]
        if isinstance(exponent, FloatImm):
            value = exponent.value
            if value == 2.0:
                return m.mul(x, x)
            if value == 3.0:
                return m.mul(m.mul(x, x), x)
            if value == 1.0:
                return x
            if value == -1.0:
                return m.div(m.c(1.0), x)
            if value == 0.5:
                return m.unary("sqrt", m.add(x, m.c(0.0)))
        return m.pow(x, args[1])

    def libm(self, name: str, args: list[str], dtype: DataType) -> str:
        """Calls a C library function for each lane."""
        symbol = name + ("f" if dtype.bits == 32 else "")
        t = llvm_type(dtype.element)
        params = ", ".join([t] * len(args))
        self.b.declare.setdefault(symbol, f"declare {t} @{symbol}({params}){C_FUNCTION}")
        if dtype.lanes == 1:
            return self.b.pure(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in args)})", *args)
        lanes = []
        for k in range(dtype.lanes):
            each = [self.operands.lane(a, dtype, k) for a in args]
            lanes.append(self.b.pure(f"call {t} @{symbol}({', '.join(f'{t} {a}' for a in each)})", *each))
        return self.operands.gather(lanes, dtype)

    def on_copysign(self, e: Call) -> str:
        return self.frame.math(e.dtype).binary("copysign", *map(self.expr, e.args))

    def on_fma(self, e: Call) -> str:
        a, b, c = map(self.expr, e.args)
        if not e.dtype.is_float:
            t = llvm_type(e.dtype)
            product = self.b.pure(f"mul {t} {a}, {b}", a, b)
            return self.b.pure(f"add {t} {product}, {c}", product, c)
        return self.frame.math(e.dtype).fma(a, b, c)

    def on_ldexp(self, e: Call) -> str:
        x, n = self.expr(e.args[0]), self.expr(e.args[1])
        t, i = llvm_type(e.dtype), llvm_type(e.args[1].dtype)
        name = f"llvm.ldexp.{suffix(e.dtype)}.{suffix(e.args[1].dtype)}"
        return self.b.call(f"{t}({t}, {i})", name, f"{t} {x}, {i} {n}", x, n)

    def on_classify(self, e: Call) -> str:
        x, dtype = self.expr(e.args[0]), e.args[0].dtype
        if not dtype.is_float:
            return splat(e.dtype, "1" if e.intrinsic == "isfinite" else "0")
        wide = dtype if dtype.bits >= 32 else _F32.with_lanes(dtype.lanes)
        x = self.operands.convert(x, dtype, wide)
        m = self.frame.math(wide)
        if e.intrinsic == "isnan":
            return m.cmp("uno", x, x)
        return m.cmp("oeq" if e.intrinsic == "isinf" else "one", m.unary("fabs", x), m.c(float("inf")))
