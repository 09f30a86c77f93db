"""Where inputs become accumulators as they are (`Alu.widen`)."""

from __future__ import annotations

from tilewright.ir import PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import BufferLoad, BufferStore, Cast, PrimFunc, Var
from tilewright.vta.names import ACC_SCOPE, INP_SCOPE


def widened(value: PrimExpr) -> BufferLoad | None:
    """The load of an input that a value converts to the type of accumulators; None for other values."""
    if not isinstance(value, Cast):
        return None
    inner = value.value
    return inner if isinstance(inner, BufferLoad) and scope_of(inner.buffer.data) == INP_SCOPE else None


def scope_of(data: Var) -> str:
    """The storage scope of a buffer's data."""
    return str(getattr(data.type_annotation, "storage_scope", ""))


class _Widenings(Visitor):
    found = False

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.found |= scope_of(s.buffer.data) == ACC_SCOPE and widened(s.value) is not None


def widens(func: PrimFunc) -> bool:
    """Whether a kernel has inputs that become accumulators as they are."""
    look = _Widenings()
    look.visit(func.body)
    return look.found


__all__ = ["scope_of", "widened", "widens"]
