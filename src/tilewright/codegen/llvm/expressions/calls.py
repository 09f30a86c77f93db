"""LLVM IR text of calls: choices, addresses, calls of functions, and the table of the rules for all intrinsics."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.mathematics import Functions
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import (
    float_const,
    int_literal,
    is_literal,
    llvm_type,
    memory_type,
)
from tilewright.codegen.llvm.expressions.types import symbol as quoted
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.memory.accesses import MemoryEmitter
from tilewright.codegen.operations import INTRINSICS
from tilewright.ir import DataType, FloatImm, GlobalVar, IntImm, PrimExpr
from tilewright.tir import Broadcast, BufferLoad, Call, StringImm, Var


def _native(dtype: DataType) -> str:
    """The type of values in calls of LLVM's intrinsics."""
    return llvm_type(dtype).replace("i16", "bfloat") if dtype.code == "bfloat" else llvm_type(dtype)


class CallEmitter:
    """Emits calls. parts: the parts of the function's emitter that have rules for intrinsics."""

    def __init__(
        self,
        frame: Frame,
        facts: Facts,
        variables: Variables,
        operands: Operands,
        expressions: ExprEmitter,
        memory: MemoryEmitter,
        functions: Functions,
    ) -> None:
        self.frame, self.facts, self.variables, self.operands = frame, facts, variables, operands
        self.expressions, self.memory, self.addresses, self.functions = expressions, memory, memory.addresses, functions
        self.b, self.iptr, self.expr = frame.b, frame.iptr, expressions.expr
        self.parts: list[object] = [self, functions]
        self._rules: dict[str, Callable[[Call], str]] = {}

    def on_call(self, e: Call) -> str:
        if isinstance(e.op, GlobalVar):
            return self._call_function(e.op, e)
        name = e.intrinsic
        rule = self._rules.get(name) or INTRINSICS.rule(name, self.parts)
        if rule is not None:
            self._rules[name] = rule
            return rule(e)
        if self.functions.has(name):
            return self.functions.math(name, e)
        raise self.frame.error(f"the LLVM back end has no rule for the intrinsic tir.{name}", e)

    # --- choices and addresses

    def on_choose(self, e: Call) -> str:
        condition, a, b = e.args
        cond = self.expr(condition)
        if is_literal(cond):
            return self.expr(a if cond != "0" else b)
        t = llvm_type(e.dtype)
        if self.expressions.speculates(a) and self.expressions.speculates(b):
            x, y = self.expr(a), self.expr(b)
            return self.b.pure(f"select i1 {cond}, {t} {x}, {t} {y}", cond, x, y)
        padded = self._padded_load(cond, a, b) or self._padded_load(cond, b, a, swapped=True)
        if padded is not None:
            return padded
        return self.expressions.lazy(cond, lambda: self.expr(a), lambda: self.expr(b), e.dtype)

    def _padded_load(self, cond: str, load: PrimExpr, other: PrimExpr, swapped: bool = False) -> str | None:
        """`load if cond else constant` without a branch, by a choice of addresses; None if that is not possible. A masked load would be
        slower: one of an address that is not mapped, as before the first row of an image, takes hundreds of cycles even where no lane is
        read (Zen 4)."""
        if (
            not isinstance(load, BufferLoad)
            or load.predicate is not None
            or load.buffer.data in self.variables.registers
        ):
            return None
        element = other.value if isinstance(other, Broadcast) else other
        if not isinstance(element, (IntImm, FloatImm)) or load.dtype.is_bool:
            return None
        if not all([self.expressions.speculates(index) for index in load.indices]):
            return None
        form = self.facts.affine.offset(load.buffer, load.indices)
        lanes = load.dtype.lanes
        if form is None or load.buffer.dtype.lanes != 1 or (lanes > 1 and form.stride != 1):
            return None
        size = load.buffer.dtype.bytes
        pointer, const, align = self.addresses.address(load.buffer.data, form, size)
        literal = (
            int_literal(element.value, element.dtype)
            if isinstance(element, IntImm)
            else float_const(element.dtype, element.value)
        )
        other_value = f"{pointer}+{const}:{load.dtype} if {cond} is {int(not swapped)} else {literal}"
        return self.memory.remembered(
            load.buffer.data,
            other_value,
            lambda: self._load_of_two(cond, pointer, const, align, load.dtype, literal, swapped),
        )

    def _load_of_two(
        self, cond: str, pointer: str, const: int, align: int, dtype: DataType, literal: str, swapped: bool
    ) -> str:
        """A load from the address of the buffer, or from that of a constant in memory."""
        fallback = self.frame.module.splat_constant(dtype, literal)
        at = self.addresses.place(pointer, const)
        first, second = (fallback, at) if swapped else (at, fallback)
        chosen = self.b.here(f"select i1 {cond}, ptr {first}, ptr {second}")
        total = dtype.bytes * dtype.lanes
        align = max(1, min(align, total & -total, 64))
        return self.b.here(f"load {memory_type(dtype)}, ptr {chosen}, align {align}")

    def on_address_of(self, e: Call) -> str:
        load = e.args[0]
        if not isinstance(load, BufferLoad):
            raise self.frame.error("address_of takes a buffer element", e)
        form = self.facts.affine.offset(load.buffer, load.indices)
        if form is None:
            raise self.frame.error("address_of takes a single element or a ramp", e)
        pointer, const, _ = self.addresses.address(
            load.buffer.data, form, load.buffer.dtype.bytes * load.buffer.dtype.lanes
        )
        return self.addresses.place(pointer, const)

    def on_access_ptr(self, e: Call) -> str:
        annotation, data, offset = e.args[0], e.args[1], e.args[2]
        assert isinstance(data, Var)
        form = self.facts.affine.scalar(offset)
        if form is None:
            raise self.frame.error("tvm_access_ptr takes a scalar offset", e)
        pointer, const, _ = self.addresses.address(data, form, annotation.dtype.bytes * annotation.dtype.lanes)
        return self.addresses.place(pointer, const)

    def on_byte_offset(self, e: Call) -> str:
        base, offset = e.args
        value = self.expr(offset)
        if is_literal(value):
            value = value if is_literal(value) else value
        else:
            value = self.operands.resize(value, llvm_type(offset.dtype), self.iptr, True)
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

    def _call_function(self, function: GlobalVar, e: Call) -> str:
        symbol, types, result, is_code = self.frame.module.callee(function, self.frame, e)
        operands = []
        for arg, kind in zip(e.args, types, strict=True):
            operand = (
                self.variables.pointer(arg)[0]
                if isinstance(arg, Var) and arg.dtype.code == "handle"
                else self.expr(arg)
            )
            operands.append(f"{kind} {operand}")
        self.memory.forget(None)
        value = self.b.here(f"call {result} @{quoted(symbol)}({', '.join(operands)})")
        if is_code:
            self.frame.check(value)
        return value

    def on_extern(self, e: Call) -> str:
        assert isinstance(e.args[0], StringImm)
        return self.c_call(e.args[0].value, e.dtype, e.args[1:], e.intrinsic == "call_pure_extern")

    def c_call(self, symbol: str, dtype: DataType, args: tuple[PrimExpr, ...], pure: bool) -> str:
        """Calls a C function. pure: it has no side effects."""
        operands = [self.expr(arg) for arg in args]
        types = [llvm_type(arg.dtype) for arg in args]
        t = llvm_type(dtype)
        self.b.declare.setdefault(symbol, f"declare {t} @{quoted(symbol)}({', '.join(types)})")
        text = f"call {t} @{quoted(symbol)}({', '.join(f'{ty} {op}' for ty, op in zip(types, operands, strict=True))})"
        if not pure:
            self.memory.forget(None)
        if t == "void":
            self.b.effect(text)
            return "0"
        return self.b.here(text)

    def intrinsic(self, symbol: str, dtype: DataType, args: tuple[PrimExpr, ...]) -> str:
        """Calls a function of LLVM without side effects. Equal calls are one."""
        operands = [self.expr(arg) for arg in args]
        types = [llvm_type(arg.dtype) for arg in args]
        given = ", ".join([f"{t} {x}" for t, x in zip(types, operands, strict=True)])
        return self.b.call(f"{llvm_type(dtype)}({', '.join(types)})", quoted(symbol), given, *operands)

    def on_atomic_add(self, e: Call) -> str:
        """Adds to the element at an address, and returns what it was."""
        value = e.args[1]
        t = _native(value.dtype)
        if value.dtype.lanes > 1 or value.dtype.is_bool:
            raise self.frame.error(
                f"there is no atomic addition of {value.dtype}; add to a scalar of integers or floats", e
            )
        place, added = self.expr(e.args[0]), self.expr(value)
        if t != llvm_type(value.dtype):
            added = self.operands.reinterpreted(added, llvm_type(value.dtype), t)
        self.memory.forget(None)
        word = "fadd" if value.dtype.is_float else "add"
        before = self.b.here(f"atomicrmw {word} ptr {place}, {t} {added} monotonic")
        return before if t == llvm_type(value.dtype) else self.operands.reinterpreted(before, t, llvm_type(value.dtype))

    def on_llvm(self, e: Call) -> str:
        name = e.args[0]
        if not isinstance(name, StringImm):
            raise self.frame.error("call_llvm_intrin takes the full name of an LLVM intrinsic as a string", e)
        pure = e.intrinsic == "call_llvm_pure_intrin"
        if "bfloat16" not in f"{e.dtype}{[a.dtype for a in e.args[1:]]}":
            if pure:
                return self.intrinsic(name.value, e.dtype, e.args[1:])
            return self.c_call(name.value, e.dtype, e.args[1:], False)
        # bfloat16 values are kept as their bits, but LLVM's intrinsics take the type bfloat.
        types = [_native(a.dtype) for a in e.args[1:]]
        operands = [
            self.operands.reinterpreted(self.expr(a), llvm_type(a.dtype), t)
            for a, t in zip(e.args[1:], types, strict=True)
        ]
        result = _native(e.dtype)
        self.b.declare.setdefault(name.value, f"declare {result} @{quoted(name.value)}({', '.join(types)})")
        given = ", ".join(f"{t} {x}" for t, x in zip(types, operands, strict=True))
        text = f"call {result} @{quoted(name.value)}({given})"
        if not pure:
            self.memory.forget(None)
            return self.operands.reinterpreted(self.b.here(text), result, llvm_type(e.dtype))
        return self.operands.reinterpreted(self.b.pure(text, *operands), result, llvm_type(e.dtype))

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

    def on_return(self, e: Call) -> str:
        value, dtype = self.expr(e.args[0]), e.args[0].dtype
        if llvm_type(dtype) != self.frame.result and self.frame.result == "i32":
            value = self.operands.convert(value, dtype, DataType("int32"))
        self.frame.leave(f"{self.frame.result} {value}")
        return "0"
