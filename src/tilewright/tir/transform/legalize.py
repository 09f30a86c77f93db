"""Types that a target cannot compute with: arithmetic in a wider type, storage as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import DataType, FloatImm, IntImm, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.node.leaves import numpy_dtype
from tilewright.tir.arithmetic import cast_to
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
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import PURE, call_effect, isnan, reinterpret
from tilewright.tir.stmt import Allocate, BufferStore
from tilewright.tir.stmt_functor import BufferMutator
from tilewright.tir.transform.base import body_pass, call_name, prim_func_pass

_MOVES = frozenset({"if_then_else", "reinterpret", "likely", "address_of", "tvm_access_ptr", "type_annotation"})
"""Calls that pass values on without computing with them."""


def _is_fp8(dtype: DataType) -> bool:
    return "float8" in dtype


def _is_bf16(dtype: DataType) -> bool:
    return dtype.element == "bfloat16"


class _Compute(Mutator):
    """Each operation on such values: operands widened, the result rounded back."""

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
    def _compare(self, e: Any) -> Any:
        a, b = self._up(self.visit(e.a)), self._up(self.visit(e.b))
        return e if a is e.a and b is e.b else type(e)(a, b, e.span)

    @on(Cast)
    def _cast(self, e: Cast) -> Any:
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
    """Operations on bfloat16 -> the same in float32 between casts; storage stays bfloat16."""
    return _compute_pass("BF16ComputeLegalize", _is_bf16, "float32")


def FP8ComputeLegalize(promote_dtype_str: str = "float32") -> Pass:
    """Operations on float8 types -> the same in another type (float32 or float16) between casts."""
    return _compute_pass("FP8ComputeLegalize", _is_fp8, promote_dtype_str)


class _Storage(BufferMutator):
    """bfloat16 values -> their bits in uint16; casts -> shifts and rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, Var] = {}

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.env:
            return self.env[v]
        kind = v.type_annotation
        if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
            if _is_bf16(DataType(kind.element_type.dtype)):
                self.env[v] = Var(v.name, PointerType(PrimType(DataType("uint16")), kind.storage_scope))
        elif _is_bf16(v.dtype):
            self.env[v] = Var(v.name, DataType("uint16").with_lanes(v.dtype.lanes))
        return self.env.get(v, v)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        new = super().rewrite_buffer(buffer)
        return new.replace(dtype=_bits(new.dtype)) if _is_bf16(new.dtype) else new

    @on(FloatImm)
    def _float(self, e: FloatImm) -> PrimExpr:
        if not _is_bf16(e.dtype):
            return e
        return IntImm("uint16", int(np.asarray(e.value).astype(numpy_dtype(e.dtype)).view("uint16")))

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Any:
        dtype = _bits(s.dtype) if _is_bf16(s.dtype) else s.dtype
        var, extents = self.visit(s.buffer_var), mutate_tuple(self.visit, s.extents)
        return s.replace(buffer_var=var, dtype=dtype, extents=extents, body=self.visit(s.body))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        predicate = None if e.predicate is None else self.visit(e.predicate)
        return BufferLoad(self.visit(e.buffer), mutate_tuple(self.visit, e.indices), predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        predicate = None if s.predicate is None else self.visit(s.predicate)
        return BufferStore(
            self.visit(s.buffer), self.visit(s.value), mutate_tuple(self.visit, s.indices), predicate, s.span
        )

    @on(Cast)
    def _cast(self, e: Cast) -> Any:
        value = self.visit(e.value)
        lanes = e.dtype.lanes
        word, single = DataType("uint32").with_lanes(lanes), DataType("float32").with_lanes(lanes)
        if _is_bf16(e.value.dtype):
            widened = reinterpret(single, cast_to(value, word) << _word(16, lanes))
            return cast_to(widened, e.dtype)
        if not _is_bf16(e.dtype):
            return e if value is e.value else Cast(e.dtype, value, e.span)
        value = cast_to(value, single)
        bits: Any = reinterpret(word, value)
        # To the nearest, ties to even; adding could carry a NaN's bits into the exponent.
        rounded = (bits + (((bits >> _word(16, lanes)) & _word(1, lanes)) + _word(0x7FFF, lanes))) >> _word(16, lanes)
        quiet = (bits >> _word(16, lanes)) | _word(0x40, lanes)
        return cast_to(Select(isnan(value), quiet, rounded), _bits(e.dtype))

    @on(Call)
    def _call(self, e: Call) -> Any:
        dtype = _bits(e.dtype) if _is_bf16(e.dtype) else e.dtype
        args = mutate_tuple(self.visit, e.args)
        return e if args is e.args and dtype is e.dtype else Call(dtype, e.op, args, e.span)


def _bits(dtype: DataType) -> DataType:
    return DataType("uint16").with_lanes(dtype.lanes)


def _word(value: int, lanes: int) -> Any:
    from tilewright.tir.arithmetic import const

    return const(value, DataType("uint32").with_lanes(lanes))


def BF16StorageLegalize() -> Pass:
    """bfloat16 storage and casts -> uint16 and integer operations; parameters become uint16. Compute is legalized first."""

    def run(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        walk = _Storage()
        buffers = {p: walk.visit(b) for p, b in func.buffer_map.items()}
        params = tuple([p if p in buffers else walk.visit(p) for p in func.params])
        return func.replace(params=params, buffer_map=buffers, body=walk.visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.BF16StorageLegalize")
    return made
