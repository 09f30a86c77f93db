"""Python source of expressions, with exact types: integers wrap around, floats are rounded after every operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from tilewright.codegen.interp.direct import extents, is_plain
from tilewright.codegen.interp.intrinsics import FLOAT, PREDICATES
from tilewright.codegen.interp.llvm_intrinsics import LLVM
from tilewright.codegen.interp.tile_registers import TILE_INSTRUCTIONS
from tilewright.codegen.interp.values import InterpError, np_type
from tilewright.ir import DataType, FloatImm, GlobalVar, IntImm, Op, PrimExpr
from tilewright.tir import (
    And,
    Broadcast,
    Buffer,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Min,
    Mod,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
)
from tilewright.tir.analysis.value_range import value_range
from tilewright.tir.scalars import ARITHMETIC, BINARY, COMPARISONS, DIVISIONS, EXTREMES, int_range

_EXACT = frozenset({"fma", "if_then_else", "likely"})


class CName(str):
    """The name of a C function, with the types of its result and arguments."""

    result: DataType
    args: list[DataType]

    def __new__(cls, name: str, result: DataType, args: list[DataType]) -> CName:
        self = super().__new__(cls, name)
        self.result, self.args = result, args
        return self


class ExprSource:
    """Writes expressions as Python source that uses the names of one generated function."""

    env: dict[str, Any]
    names: dict[Var, str]
    ranges: dict[Var, tuple[int, int]]
    defined: int = 0
    has_tiles: bool = False

    _table: ClassVar[dict[type, Callable[..., str]]] = {}

    def expr(self, e: PrimExpr) -> str:
        method = self._table.get(type(e))
        if method is None:
            raise InterpError(f"the interpreter has no rule for the expression {type(e).__name__}: {e}")
        return method(self, e)

    def constant(self, value: Any, hint: str) -> str:
        """The name of a value in the globals of the generated function."""
        key = f"{hint}_{len(self.env)}"
        self.env[key] = value
        return key

    def kind(self, dtype: DataType) -> str:
        """The name of the NumPy type of one lane."""
        name = f"t_{dtype.element}"
        if name not in self.env:
            self.env[name] = np_type(dtype)
            self.env[f"s_{dtype.element}"] = np_type(dtype).type
        return name

    def scalar(self, dtype: DataType) -> str:
        """The name of the NumPy scalar type of one lane."""
        self.kind(dtype)
        return f"s_{dtype.element}"

    def dtype(self, dtype: DataType) -> str:
        """The name of the data type."""
        name = f"d_{python_name(dtype)}"
        self.env.setdefault(name, dtype)
        return name

    # --- leaves

    def _var(self, e: Var) -> str:
        name = self.names.get(e)
        if name is None:
            raise InterpError(f"variable {e.name} is used but never defined")
        return name

    def _int(self, e: IntImm) -> str:
        if e.dtype.is_bool:
            return "True" if e.value else "False"
        return f"({e.value})" if e.value < 0 else str(e.value)

    def _float(self, e: FloatImm) -> str:
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(e.value).astype(np_type(e.dtype))[()], "f")

    def _string(self, e: StringImm) -> str:
        return repr(e.value)

    # --- arithmetic

    def wrapped(self, text: str, dtype: DataType, e: PrimExpr | None = None) -> str:
        """A Python integer wrapped around to `dtype`; unchanged if its range is known to fit."""
        if dtype.lanes > 1:
            return f"({text})"
        low, high = int_range(dtype)
        if e is not None:
            known = self.bounds(e)
            if known is not None and low <= known[0] and known[1] <= high:
                return f"({text})"
        mask = (1 << dtype.bits) - 1
        if low == 0:
            return f"(({text}) & {mask})"
        return f"(((({text}) + {-low}) & {mask}) - {-low})"

    def _arith(self, e: Any) -> str:
        text = f"{self.expr(e.a)} {BINARY[type(e)].sign} {self.expr(e.b)}"
        return f"({text})" if e.dtype.is_float else self.wrapped(text, e.dtype, e)

    def _compare(self, e: Any) -> str:
        text = f"({self.expr(e.a)} {BINARY[type(e)].sign} {self.expr(e.b)})"
        return f"bool{text}" if e.a.dtype.is_float and e.dtype.lanes == 1 else text

    def _division(self, e: Any) -> str:
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.dtype
        if dtype.is_float:
            if type(e) is Div:
                return f"({a} / {b})"
            return f"np.fmod({a}, {b})" if type(e) is Mod else f"{BINARY[type(e)].word}({a}, {b})"
        if type(e.b) is IntImm and e.b.value > 0 and dtype.lanes == 1 and type(e) in (FloorDiv, FloorMod):
            return f"({a} {'//' if type(e) is FloorDiv else '%'} {b})"
        text = f"{BINARY[type(e)].word}({a}, {b})"
        return text if dtype.lanes > 1 else self.wrapped(text, dtype)

    def _min_max(self, e: Any) -> str:
        a, b = self.expr(e.a), self.expr(e.b)
        if not e.dtype.is_float and e.dtype.lanes == 1:
            return f"{'min' if type(e) is Min else 'max'}({a}, {b})"
        return f"{'lesser' if type(e) is Min else 'greater'}({a}, {b})"

    def _logical(self, e: Any) -> str:
        word = "and" if type(e) is And else "or"
        if e.dtype.lanes > 1:
            word = "&" if word == "and" else "|"
        return f"({self.expr(e.a)} {word} {self.expr(e.b)})"

    def _not(self, e: Not) -> str:
        return f"(not {self.expr(e.a)})" if e.dtype.lanes == 1 else f"(~{self.expr(e.a)})"

    def _select(self, e: Select) -> str:
        return f"select({self.expr(e.condition)}, {self.expr(e.true_value)}, {self.expr(e.false_value)})"

    def _cast(self, e: Cast) -> str:
        return self.convert(self.expr(e.value), e.value.dtype, e.dtype)

    def convert(self, text: str, source: DataType, to: DataType) -> str:
        """A value converted as in C, except that floats saturate to integers and NaN becomes 0."""
        if source == to:
            return text
        lanes = to.lanes > 1
        if to.is_bool:
            return f"({text} != 0)" if lanes else f"bool({text} != 0)"
        if to.is_float:
            kind = self.kind(to)
            if lanes:
                return f"narrow({text}, {kind})"
            if source.is_float:
                return f"narrow({text}, {kind})"
            return f"from_int({text}, {kind})"
        if to.code == "handle" or source.code == "handle":
            return text
        low, high = int_range(to)
        if source.is_float:
            text = f"saturate({text}, {low}, {high})"
            return f"{text}.astype({self.kind(to)})" if lanes else text
        if lanes:
            return f"{text}.astype({self.kind(to)})"
        known = int_range(source)
        if low <= known[0] and known[1] <= high:
            return f"int({text})" if source.is_bool else text
        return self.wrapped(f"int({text})" if source.is_bool else text, to)

    # --- vectors

    def _ramp(self, e: Ramp) -> str:
        return f"ramp({self.expr(e.base)}, {self.expr(e.stride)}, {e.lanes}, {self.kind(e.dtype)})"

    def _broadcast(self, e: Broadcast) -> str:
        return f"broadcast({self.expr(e.value)}, {e.lanes}, {self.kind(e.dtype)})"

    def _shuffle(self, e: Shuffle) -> str:
        parts = ", ".join(f"np.atleast_1d(np.asarray({self.expr(v)}, {self.kind(v.dtype)}))" for v in e.vectors)
        picks = ", ".join(self.expr(i) for i in e.indices)
        text = f"np.concatenate([{parts}])[[{picks}]]"
        return self.unboxed(f"{text}[0]", e.dtype) if e.dtype.lanes == 1 else text

    def unboxed(self, text: str, dtype: DataType) -> str:
        """A NumPy scalar in the form in which the interpreter keeps scalars."""
        if dtype.is_float:
            return text
        return f"bool({text})" if dtype.is_bool else f"int({text})"

    def _let(self, e: Let) -> str:
        name = self.define(e.var)
        return f"({name} := {self.expr(e.value)}, {self.expr(e.body)})[1]"

    def define(self, var: Var) -> str:
        """A fresh Python name for a variable."""
        self.defined += 1
        name = f"v_{python_name(var.name)}_{self.defined}"
        self.names[var] = name
        return name

    # --- memory

    def accessor(self, buffer: Buffer) -> str:
        raise NotImplementedError

    def direct(self, buffer: Buffer) -> str | None:
        raise NotImplementedError

    def inside(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str | None:
        """The flat index of an element of a compact buffer; None unless it is known to be in bounds."""
        step, terms = 1, []
        for i, size in zip(reversed(indices), reversed(extents(buffer)), strict=True):
            known = self.bounds(i)
            if known is None or known[0] < 0 or known[1] >= size:
                return None
            if known[1]:
                terms.append(self.expr(i) if step == 1 else f"{self.expr(i)} * {step}")
            step *= size
        return " + ".join(reversed(terms)) or "0"

    def is_run(self, buffer: Buffer, indices: tuple[PrimExpr, ...], predicate: PrimExpr | None) -> bool:
        """Whether a vector access is to consecutive elements of a flat buffer."""
        if predicate is not None or len(indices) != 1 or buffer.dtype.lanes != 1:
            return False
        index = indices[0]
        return (
            type(index) is Ramp
            and index.base.dtype.lanes == 1
            and type(index.stride) is IntImm
            and index.stride.value == 1
        )

    def _load(self, e: BufferLoad) -> str:
        single = e.dtype.lanes == 1 and e.predicate is None
        direct = self.direct(e.buffer) if single else None
        if direct is not None:
            at = self.inside(e.buffer, e.indices)
            if at is not None:
                found = f"{direct}[{at}]"
                boxed = (e.dtype.is_int or e.dtype.is_uint) and not is_plain(e.dtype)
                return self.unboxed(found, e.dtype) if boxed else found
        if not single and self.is_run(e.buffer, e.indices, e.predicate):
            ramp: Any = e.indices[0]
            return f"{self.accessor(e.buffer)}.part({self.expr(ramp.base)}, {ramp.lanes})"
        index = ", ".join([self.expr(i) for i in e.indices])
        if direct is not None and self.is_cells(e.buffer):
            return f"{direct}.read({index})"
        name = self.accessor(e.buffer)
        if single:
            return f"{name}.get({index})"
        mask = "None" if e.predicate is None else f"np.atleast_1d({self.expr(e.predicate)})"
        text = f"{name}.vget({mask}{', ' if index else ''}{index})"
        return self.unboxed(f"{text}[0]", e.dtype) if e.dtype.lanes == 1 else text

    def is_cells(self, buffer: Buffer) -> bool:
        raise NotImplementedError

    def exact(self, text: str, e: PrimExpr) -> str:
        """A value to store in a cell. A cell does not convert, so values from outside are converted to their type here."""
        name = getattr(e.op, "name", "").removeprefix("tir.") if type(e) is Call else ""
        if type(e) is not Call or name in FLOAT or name in _EXACT:
            return text
        return f"{self.scalar(e.dtype)}({text})" if e.dtype.is_float else self.unboxed(text, e.dtype)

    # --- calls

    def _call(self, e: Call) -> str:
        if isinstance(e.op, GlobalVar):
            return f"call_function({e.op.name_hint!r}, [{', '.join(map(self.expr, e.args))}])"
        assert isinstance(e.op, Op)
        name = e.op.name.removeprefix("tir.")
        args = e.args
        if name in FLOAT:
            f = self.constant(FLOAT[name], f"i_{name}")
            return f"{f}({self.kind(e.dtype)}, {', '.join(map(self.expr, args))})"
        if name in PREDICATES:
            return f"{self.constant(PREDICATES[name], name)}({self.expr(args[0])})"
        method = getattr(self, f"_call_{name}", None)
        if method is None:
            raise InterpError(f"the interpreter has no rule for the intrinsic {e.op.name}: {e}")
        text: str = method(e)
        return text

    def _call_if_then_else(self, e: Call) -> str:
        c, a, b = map(self.expr, e.args)
        return f"({a} if {c} else {b})"

    def _call_likely(self, e: Call) -> str:
        return self.expr(e.args[0])

    _call_ignore_loop_partition = _call_likely

    def _call_fma(self, e: Call) -> str:
        if e.dtype.is_float:
            return f"fma({self.kind(e.dtype)}, {', '.join(map(self.expr, e.args))})"
        a, b, c = map(self.expr, e.args)
        return self.wrapped(f"{a} * {b} + {c}", e.dtype)

    def _bitwise(self, e: Call, symbol: str) -> str:
        return f"({self.expr(e.args[0])} {symbol} {self.expr(e.args[1])})"

    def _call_bitwise_and(self, e: Call) -> str:
        return self._bitwise(e, "&")

    def _call_bitwise_or(self, e: Call) -> str:
        return self._bitwise(e, "|")

    def _call_bitwise_xor(self, e: Call) -> str:
        return self._bitwise(e, "^")

    def _call_bitwise_not(self, e: Call) -> str:
        return self.wrapped(f"~{self.expr(e.args[0])}", e.dtype)

    def _call_shift_left(self, e: Call) -> str:
        return self.wrapped(f"shift_left({self.expr(e.args[0])}, {self.expr(e.args[1])}, {e.dtype.bits})", e.dtype)

    def _call_shift_right(self, e: Call) -> str:
        return f"shift_right({self.expr(e.args[0])}, {self.expr(e.args[1])}, {e.dtype.bits})"

    def _call_popcount(self, e: Call) -> str:
        return f"popcount({self.expr(e.args[0])}, {e.args[0].dtype.bits})"

    def _call_clz(self, e: Call) -> str:
        return f"clz({self.expr(e.args[0])}, {e.args[0].dtype.bits})"

    def _call_q_multiply_shift(self, e: Call) -> str:
        text = f"q_multiply_shift({', '.join(map(self.expr, e.args))})"
        return self.wrapped(text, e.dtype)

    def _call_reinterpret(self, e: Call) -> str:
        value = e.args[0]
        if e.dtype.code == "handle":
            return f"address({self.expr(value)})"
        text = f"reinterpret({self.expr(value)}, {self.kind(value.dtype)}, {self.kind(e.dtype)})"
        return text if e.dtype.lanes > 1 else self.unboxed(text, e.dtype)

    def _call_tvm_tuple(self, e: Call) -> str:
        return f"({', '.join(map(self.expr, e.args))},)"

    def _call_large_uint_imm(self, e: Call) -> str:
        return f"({self.expr(e.args[1])} << 32 | {self.expr(e.args[0])})"

    def _call_address_of(self, e: Call) -> str:
        load = e.args[0]
        assert isinstance(load, BufferLoad)
        return f"{self.accessor(load.buffer)}.pointer({', '.join(map(self.expr, load.indices))})"

    def _call_tvm_access_ptr(self, e: Call) -> str:
        size = e.args[0].dtype.bytes * e.args[0].dtype.lanes
        return f"{self.expr(e.args[1])}.moved({self.expr(e.args[2])} * {size})"

    def _call_tvm_stack_make_shape(self, e: Call) -> str:
        return f"({''.join([f'{self.expr(a)}, ' for a in e.args])})"

    def _call_tvm_stack_make_array(self, e: Call) -> str:
        data, shape, offset = (self.expr(e.args[i]) for i in (0, 1, 5))
        return f"packed_array({data}, {shape}, {offset}, {self.kind(e.args[4].dtype)})"

    def _call_tvm_stack_alloca(self, e: Call) -> str:
        return f"[{{}} for _ in range({self.expr(e.args[1])})]"

    def _call_tvm_struct_set(self, e: Call) -> str:
        return f"struct_set({', '.join(map(self.expr, e.args))})"

    def _call_tvm_struct_get(self, e: Call) -> str:
        return f"struct_get({', '.join(map(self.expr, e.args))})"

    def _call_tvm_call_packed_lowered(self, e: Call) -> str:
        name, values, _, begin, end = e.args
        return f"call_extern({self.expr(name)}, *stacked({', '.join(map(self.expr, (values, begin, end)))}))"

    _call_tvm_call_cpacked_lowered = _call_tvm_call_packed_lowered

    def _call_handle_add_byte_offset(self, e: Call) -> str:
        return f"{self.expr(e.args[0])}.moved({self.expr(e.args[1])})"

    def _call_isnullptr(self, e: Call) -> str:
        return f"({self.expr(e.args[0])} is None)"

    def _call_tvm_call_packed(self, e: Call) -> str:
        return f"call_extern({', '.join(map(self.expr, e.args))})"

    _call_tvm_call_cpacked = _call_tvm_call_packed

    def _call_call_extern(self, e: Call) -> str:
        name, *args = e.args
        assert isinstance(name, StringImm)
        called = CName(name.value, e.dtype, [a.dtype for a in args])
        return f"call_extern({', '.join([self.constant(called, 'c'), *map(self.expr, args)])})"

    _call_call_pure_extern = _call_call_extern

    def _call_call_llvm_intrin(self, e: Call) -> str:
        name: Any = e.args[0]
        if name.value in TILE_INSTRUCTIONS:
            self.has_tiles = True
            return f"tiles.{TILE_INSTRUCTIONS[name.value]}({', '.join(map(self.expr, e.args[1:]))})"
        known = LLVM.get(name.value)
        if known is None:
            raise InterpError(f"the interpreter has no rule for the LLVM intrinsic {name.value}: {e}")
        return f"{self.constant(known, 'llvm')}({', '.join([self.kind(e.dtype), *map(self.expr, e.args[1:])])})"

    _call_call_llvm_pure_intrin = _call_call_llvm_intrin

    def _call_tvm_call_trace_packed(self, e: Call) -> str:
        called = f"call_extern({', '.join(map(self.expr, e.args))})"
        return f"(lambda told, value: value if told is None else told)({called}, {self.expr(e.args[-1])})"

    def _nothing(self, e: Call) -> str:
        return "None"

    _call_prefetch = _call_tvm_storage_sync = _call_assume = _nothing
    _call_start_profile_intrinsic = _call_end_profile_intrinsic = _nothing

    def _call_undef(self, e: Call) -> str:
        return "None"

    def _call_vectorlow(self, e: Call) -> str:
        return f"{self.expr(e.args[-1])}[:{e.dtype.lanes}]"

    def _call_vectorhigh(self, e: Call) -> str:
        return f"{self.expr(e.args[-1])}[-{e.dtype.lanes}:]"

    def _call_vectorcombine(self, e: Call) -> str:
        return f"np.concatenate([{self.expr(e.args[0])}, {self.expr(e.args[1])}])"

    # --- ranges, so that index arithmetic need not wrap

    def bounds(self, e: PrimExpr) -> tuple[int, int] | None:
        return value_range(e, self.ranges.get)


@cache
def python_name(name: str) -> str:
    """A Python identifier made from a name."""
    return "".join([c if c.isalnum() and c.isascii() else "_" for c in name])


ExprSource._table = {
    Var: ExprSource._var,
    SizeVar: ExprSource._var,
    IntImm: ExprSource._int,
    FloatImm: ExprSource._float,
    StringImm: ExprSource._string,
    **dict.fromkeys(ARITHMETIC, ExprSource._arith),
    **dict.fromkeys(COMPARISONS, ExprSource._compare),
    **dict.fromkeys(DIVISIONS, ExprSource._division),
    **dict.fromkeys(EXTREMES, ExprSource._min_max),
    **dict.fromkeys((And, Or), ExprSource._logical),
    Not: ExprSource._not,
    Select: ExprSource._select,
    Cast: ExprSource._cast,
    Ramp: ExprSource._ramp,
    Broadcast: ExprSource._broadcast,
    Shuffle: ExprSource._shuffle,
    Let: ExprSource._let,
    BufferLoad: ExprSource._load,
    Call: ExprSource._call,
}
