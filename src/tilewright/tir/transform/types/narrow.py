"""NarrowDataType: converts index arithmetic to fewer bits if its bounds allow it."""

from __future__ import annotations

from tilewright.ir import DataType, IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir.expr import (
    Add,
    BufferLoad,
    Cast,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Ramp,
    Sub,
    Var,
)
from tilewright.tir.stmt import BufferStore, For, Stmt
from tilewright.tir.transform.base import body_pass

WIDE, NARROW = DataType("int64"), DataType("int32")


class _Narrow(Mutator):
    """Converts 64-bit loop variables and index arithmetic to 32 bits, if no value can be out of range."""

    def __init__(self) -> None:
        from tilewright.arith import Analyzer

        self.analyzer = Analyzer()
        self.env: dict[Var, Var] = {}

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        found = self.env.get(v)
        if found is None:
            return v
        return found.astype(v.dtype)

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        if str(s.loop_var.dtype) == "int64" and isinstance(low, IntImm) and isinstance(extent, IntImm):
            if low.value >= -(2**31) and low.value + extent.value < 2**31:
                var = Var(s.loop_var.name, "int32")
                self.env[s.loop_var] = var
                end = low.value + extent.value
                self.analyzer.bind(var, Range(IntImm(NARROW, low.value), IntImm(NARROW, end)), allow_override=True)
                body = self.visit(s.body)
                return For(
                    var,
                    IntImm("int32", low.value),
                    IntImm("int32", extent.value),
                    s.kind,
                    body,
                    s.thread_binding,
                    s.annotations,
                )
        body = self.visit(s.body)
        return (
            s
            if low is s.min and extent is s.extent and body is s.body
            else s.replace(min=low, extent=extent, body=body)
        )

    def _small(self, e: PrimExpr) -> PrimExpr | None:
        """The expression in 32 bits, if neither it nor a part of it can be out of their range; else None."""
        kind = type(e)
        if e.dtype is NARROW:
            return e
        if kind is Cast and e.value.dtype is NARROW:  # type: ignore[attr-defined]
            return e.value  # type: ignore[attr-defined, no-any-return]
        low, high = self.analyzer.bound(e)
        if low < -(2**31) or high >= 2**31:
            return None
        if kind is IntImm:
            return IntImm(NARROW, e.value)  # type: ignore[attr-defined]
        if kind in (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max):
            a, b = self._small(e.a), self._small(e.b)  # type: ignore[attr-defined]
            return None if a is None or b is None else kind(a, b)
        return None

    def _index(self, e: PrimExpr) -> PrimExpr:
        new = self.visit(e)
        if isinstance(new, Ramp) and new.dtype.element is WIDE:
            base, stride = self._small(new.base), self._small(new.stride)
            last = new.base + new.stride * (new.lanes - 1)
            if base is not None and stride is not None and self._small(last) is not None:
                return Ramp(base, stride, new.lanes)
        if new.dtype is WIDE:
            small = self._small(new)
            return new if small is None else small
        return new

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        indices = mutate_tuple(self._index, e.indices)
        return e if indices is e.indices else BufferLoad(e.buffer, indices, e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        value, indices = self.visit(s.value), mutate_tuple(self._index, s.indices)
        return s if value is s.value and indices is s.indices else s.replace(value=value, indices=indices)


def NarrowDataType(target_bits: int = 32) -> Pass:
    """Convert 64-bit loops with small constant bounds to 32 bits, and their indices if no part of them leaves the
    range.
    """
    if target_bits == 64:
        return body_pass("NarrowDataType", lambda f: f.body)
    if target_bits != 32:
        raise ValueError(
            f"NarrowDataType narrows to 32 bits, or with 64 leaves all as it is, but was given {target_bits}"
        )
    return body_pass("NarrowDataType", lambda f: _Narrow().visit(f.body))
