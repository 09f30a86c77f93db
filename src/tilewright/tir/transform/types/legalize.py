"""Types without arithmetic on a target: computation in a wider type, storage as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import DataType, FloatImm, IntImm, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, any_node, mutate_tuple, on
from tilewright.node.field_values import numpy_dtype
from tilewright.tir.arithmetic import cast_to, const
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Let,
    Max,
    Min,
    Mul,
    Select,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import PURE, call_effect, isnan, reinterpret
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, LetStmt, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass, call_name, prim_func_pass

_MOVES = frozenset({"if_then_else", "reinterpret", "likely", "address_of", "tvm_access_ptr", "type_annotation"})
"""Calls that move values without computing."""


_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "e4m3_float8", "e5m2_float8")
"""Types that are kept as bits."""


def _is_fp8(dtype: DataType) -> bool:
    return "float8" in dtype


def _is_bf16(dtype: DataType) -> bool:
    return dtype.element == "bfloat16"


class _Compute(Mutator):
    """Widens the operands of each operation, and rounds the result back."""

    def __init__(self, narrow: Any, wide: str) -> None:
        self.narrow, self.wide = narrow, DataType(wide)

    def _up(self, e: PrimExpr) -> PrimExpr:
        return cast_to(e, self.wide.with_lanes(e.dtype.lanes)) if self.narrow(e.dtype) else e

    @on(Add, Sub, Mul, Div, Min, Max)
    def _binary(self, e: Any) -> Any:
        a, b = self.visit(e.a), self.visit(e.b)
        if not self.narrow(e.dtype):
            return e if a is e.a and b is e.b else type(e)(a, b, e.span)
        return cast_to(type(e)(self._up(a), self._up(b), e.span), e.dtype)

    @on(EQ, NE, LT, LE, GT, GE)
    def _compare(self, e: EQ | LT) -> EQ | LT:
        a, b = self._up(self.visit(e.a)), self._up(self.visit(e.b))
        return e if a is e.a and b is e.b else type(e)(a, b, e.span)

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        value = self.visit(e.value)
        through = self.wide.with_lanes(e.dtype.lanes)
        if self.narrow(value.dtype) and e.dtype is not through:
            return cast_to(cast_to(value, through), e.dtype)
        if self.narrow(e.dtype) and value.dtype is not through:
            return cast_to(cast_to(value, through), e.dtype)
        return e if value is e.value else Cast(e.dtype, value, e.span)

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        if (
            call_effect(e) != PURE
            or call_name(e) in _MOVES
            or not any([self.narrow(x.dtype) for x in (*new.args, new)])
        ):
            return new
        dtype = self.wide.with_lanes(new.dtype.lanes) if self.narrow(new.dtype) else new.dtype
        return cast_to(Call(dtype, new.op, tuple([self._up(x) for x in new.args]), new.span), new.dtype)


def _compute_pass(name: str, narrow: Any, wide: str) -> Pass:
    return body_pass(name, lambda f: _Compute(narrow, wide).visit(f.body))


def BF16ComputeLegalize() -> Pass:
    """Compute operations on bfloat16 in float32, between casts. Storage stays bfloat16."""
    return _compute_pass("BF16ComputeLegalize", _is_bf16, "float32")


def FP8ComputeLegalize(promote_dtype_str: str = "float32") -> Pass:
    """Compute operations on float8 types in another type (float32 or float16), between casts."""
    return _compute_pass("FP8ComputeLegalize", _is_fp8, promote_dtype_str)


class _Storage(BufferMutator):
    """Replaces values of narrow float types by their bits in unsigned integers, and casts by integer operations."""

    def __init__(self, narrow: Any, word: str, decode: Any, encode: Any) -> None:
        super().__init__()
        self.narrow, self.word, self.decode, self.encode = narrow, DataType(word), decode, encode
        self.env: dict[Var, Var] = {}

    def _bits(self, dtype: DataType) -> DataType:
        return self.word.with_lanes(dtype.lanes) if self.narrow(dtype) else dtype

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.env:
            return self.env[v]
        kind = v.type_annotation
        if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
            if self.narrow(DataType(kind.element_type.dtype)):
                self.env[v] = Var(v.name, PointerType(PrimType(self.word), kind.storage_scope))
        elif self.narrow(v.dtype):
            self.env[v] = Var(v.name, self._bits(v.dtype))
        return self.env.get(v, v)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        new = super().rewrite_buffer(buffer)
        return new.replace(dtype=self._bits(new.dtype)) if self.narrow(new.dtype) else new

    @on(FloatImm)
    def _float(self, e: FloatImm) -> PrimExpr:
        if not self.narrow(e.dtype):
            return e
        bits = np.asarray(e.value).astype(np.float32).astype(numpy_dtype(e.dtype)).view(str(self.word))
        return IntImm(self.word, int(bits))

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Any:
        return s.replace(var=self.visit(s.var), value=self.visit(s.value), body=self.visit(s.body))

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        var, extents = self.visit(s.buffer_var), mutate_tuple(self.visit, s.extents)
        return s.replace(buffer_var=var, dtype=self._bits(s.dtype), extents=extents, body=self.visit(s.body))

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> Stmt:
        return s.replace(buffer=self.visit(s.buffer), body=self.visit(s.body))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        predicate = None if e.predicate is None else self.visit(e.predicate)
        return BufferLoad(self.visit(e.buffer), mutate_tuple(self.visit, e.indices), predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        predicate = None if s.predicate is None else self.visit(s.predicate)
        return BufferStore(
            self.visit(s.buffer), self.visit(s.value), mutate_tuple(self.visit, s.indices), predicate, s.span
        )

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        value, source = self.visit(e.value), e.value.dtype
        lanes = e.dtype.lanes
        single = DataType("float32").with_lanes(lanes)
        if self.narrow(source):
            wide = self.decode(cast_to(value, DataType("uint32").with_lanes(lanes)), lanes, source)
            if not self.narrow(e.dtype):
                return cast_to(wide, e.dtype)
            value = wide
        elif not self.narrow(e.dtype):
            return e if value is e.value else Cast(e.dtype, value, e.span)
        return cast_to(self.encode(cast_to(value, single), lanes, e.dtype), self._bits(e.dtype))

    @on(Call)
    def _call(self, e: Call) -> Any:
        args, dtype = mutate_tuple(self.visit, e.args), self._bits(e.dtype)
        return e if args is e.args and dtype is e.dtype else Call(dtype, e.op, args, e.span)


def _word(value: int, lanes: int) -> PrimExpr:
    return const(value, DataType("uint32").with_lanes(lanes))


def _bf16_to_float(bits: PrimExpr, lanes: int, source: DataType) -> PrimExpr:
    return reinterpret(DataType("float32").with_lanes(lanes), bits << _word(16, lanes))


def _float_to_bf16(value: PrimExpr, lanes: int, to: DataType) -> PrimExpr:
    bits = reinterpret(DataType("uint32").with_lanes(lanes), value)
    # Rounds to the nearest, ties to even. The carry could reach a NaN's exponent.
    rounded = (bits + (((bits >> _word(16, lanes)) & _word(1, lanes)) + _word(0x7FFF, lanes))) >> _word(16, lanes)
    return Select(isnan(value), (bits >> _word(16, lanes)) | _word(0x40, lanes), rounded)


def _fp8_format(dtype: DataType) -> tuple[int, int, int, int]:
    """(mantissa bits, bias, the first code above all finite values, the code of NaN)."""
    return (2, 15, 0x7C, 0x7E) if "e5m2" in dtype else (3, 7, 0x7F, 0x7F)


def _fp8_to_float(bits: PrimExpr, lanes: int, source: DataType) -> PrimExpr:
    """Moves exponent and mantissa to float32's positions, and scales by the difference of the biases: exact for subnormals, too."""
    mantissa, bias, top, _ = _fp8_format(source)
    single = DataType("float32").with_lanes(lanes)
    magnitude = bits & _word(0x7F, lanes)
    sign = (bits & _word(0x80, lanes)) << _word(24, lanes)
    scaled = reinterpret(single, magnitude << _word(23 - mantissa, lanes)) * const(2.0 ** (127 - bias), single)
    # Codes above the finite values are infinite if they equal float32's pattern for infinity, else NaN.
    payload = (magnitude - _word(top, lanes)) << _word(20, lanes)
    special = _word(0x7F800000, lanes) | (payload if top == 0x7C else _word(0x400000, lanes))
    found = Select(magnitude >= _word(top, lanes), special, reinterpret(DataType("uint32").with_lanes(lanes), scaled))
    return reinterpret(single, found | sign)


def _float_to_fp8(value: PrimExpr, lanes: int, to: DataType) -> PrimExpr:
    """Rounds to the nearest, ties to even. Values that are too large become infinite, or NaN in types without infinity."""
    mantissa, bias, top, nan = _fp8_format(to)
    single, unsigned = DataType("float32").with_lanes(lanes), DataType("uint32").with_lanes(lanes)
    bits = reinterpret(unsigned, value)
    sign = (bits >> _word(24, lanes)) & _word(0x80, lanes)
    magnitude = bits & _word(0x7FFFFFFF, lanes)
    shift = 23 - mantissa
    half = ((magnitude >> _word(shift, lanes)) & _word(1, lanes)) + _word((1 << (shift - 1)) - 1, lanes)
    normal = ((magnitude + half) >> _word(shift, lanes)) - _word((127 - bias) << mantissa, lanes)
    # Adding this number rounds subnormal values to their steps.
    magic = 2.0 ** (24 - bias - mantissa)
    stepped = reinterpret(single, magnitude) + const(magic, single)
    below = reinterpret(unsigned, stepped) - _word(int(np.float32(magic).view("uint32")), lanes)
    small = magnitude < _word((127 - bias + 1) << 23, lanes)
    finite = Select(small, below, Select(normal >= _word(top, lanes), _word(top, lanes), normal))
    return Select(isnan(value), _word(nan, lanes), finite) | sign


def _stored(func: PrimFunc, *options: Any) -> PrimFunc:
    walk = _Storage(*options)
    buffers = {p: walk.visit(b) for p, b in func.buffer_map.items()}
    params = tuple([p if p in buffers else walk.visit(p) for p in func.params])
    return func.replace(params=params, buffer_map=buffers, body=walk.visit(func.body))


def _storage_pass(name: str, gives: str, *options: Any) -> Pass:
    made: Pass = prim_func_pass(lambda func, mod, ctx: _stored(func, *options), name=f"tir.{name}", gives=(gives,))
    return made


def BF16StorageLegalize() -> Pass:
    """Replace bfloat16 storage and casts by uint16 and integer operations. Parameters become uint16. Run
    BF16ComputeLegalize first.
    """
    return _storage_pass("BF16StorageLegalize", "no_bfloat16", _is_bf16, "uint16", _bf16_to_float, _float_to_bf16)


def FP8StorageLegalize() -> Pass:
    """Replace float8 storage and casts by uint8 and integer operations. Parameters become uint8. Run FP8ComputeLegalize
    first.
    """
    return _storage_pass("FP8StorageLegalize", "no_float8", _is_fp8, "uint8", _fp8_to_float, _float_to_fp8)


def without_float8(func: PrimFunc, named: bool = False) -> PrimFunc:
    """The function without float8 types; the same function if it has none. named: conversions are calls (`conversion_of`)."""
    if not any_node(func.body, lambda e: isinstance(e, PrimExpr) and _is_fp8(e.dtype)):
        return func
    body = _Compute(_is_fp8, "float32").visit(func.body)
    return _stored(func.replace(body=body), _is_fp8, "uint8", *_conversions(_fp8_to_float, _float_to_fp8, named))


def _has(func: PrimFunc, dtype: str) -> bool:
    return any_node(func.body, lambda n: isinstance(n, PrimExpr) and n.dtype.element == dtype)


def computed_in_float32(func: PrimFunc, dtype: str) -> PrimFunc:
    """The function with a narrow float type only in storage and casts; the same function if it has none."""
    if not _has(func, dtype):
        return func
    return func.replace(body=_Compute(lambda t: t.element == dtype, "float32").visit(func.body))


def without_bfloat16(func: PrimFunc, named: bool = False) -> PrimFunc:
    """The function without bfloat16, computed in float32 and kept as uint16; the same function if it has none. named: conversions are
    calls (`conversion_of`)."""
    if not _has(func, "bfloat16"):
        return func
    conversions = _conversions(_bf16_to_float, _float_to_bf16, named)
    return _stored(computed_in_float32(func, "bfloat16"), _is_bf16, "uint16", *conversions)


def float16_as_bits(func: PrimFunc) -> PrimFunc:
    """The function without float16, computed in float32 and kept as uint16; conversions are calls of "float_of_float16" (of bits in uint32)
    and "float16_of_float". The same function if it has none."""
    if not _has(func, "float16"):
        return func
    conversions = _conversions(None, None, True)
    computed = computed_in_float32(func, "float16")
    return _stored(computed, lambda t: t.element == "float16", "uint16", *conversions)


def _conversions(decode: Any, encode: Any, named: bool) -> tuple[Any, Any]:
    """Conversions from bits in uint32 to float32 and back, as expressions or as calls."""
    if not named:
        return decode, encode

    def call(dtype: str, name: str, value: PrimExpr, lanes: int) -> PrimExpr:
        return Call(DataType(dtype).with_lanes(lanes), "call_pure_extern", (StringImm(name), value))

    return (
        lambda bits, lanes, source: call("float32", f"float_of_{source.element}", bits, lanes),
        lambda value, lanes, to: call("uint32", f"{to.element}_of_float", value, lanes),
    )


def conversion_of(name: str, value: PrimExpr) -> PrimExpr | None:
    """What a call of a conversion does, which `without_float8` or `without_bfloat16` made; None for other names."""
    narrow = name.removeprefix("float_of_").removesuffix("_of_float")
    if narrow == name or narrow not in _NARROW:
        return None
    kind, lanes = DataType(narrow), value.dtype.lanes
    decode, encode = (_bf16_to_float, _float_to_bf16) if _is_bf16(kind) else (_fp8_to_float, _float_to_fp8)
    found: PrimExpr = decode(value, lanes, kind) if name.startswith("float_of_") else encode(value, lanes, kind)
    return found


def without_narrow_floats(func: PrimFunc) -> PrimFunc:
    """The function without float8 and bfloat16, and with float16 only in storage and casts; the same function if it has none."""
    return without_bfloat16(computed_in_float32(without_float8(func), "float16"))
