"""Dynamic dimensions that expressions use, and where the values of these can be read."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir import IntImm, PrimExpr, TensorType, TupleType
from tilewright.relay.cards.card import OpCard
from tilewright.relay.cards.open_attributes import sizes_in
from tilewright.relay.expr import Call, Expr, Var
from tilewright.relay.typing.open_types import type_of
from tilewright.tir import Any as AnyDim
from tilewright.tir import Var as SizeName
from tilewright.tir.stmt_functor import used_vars


def symbolic_extents(e: Expr) -> list[PrimExpr]:
    """The dimensions of a tensor, or of those in a tuple, that are variables or computed from variables."""
    t = type_of(e)
    tensors = t.fields if isinstance(t, TupleType) else (t,)
    return [
        d for x in tensors if isinstance(x, TensorType) for d in x.shape if not isinstance(d, (int, IntImm, AnyDim))
    ]


def sizes_used(exprs: Iterable[Expr]) -> dict[SizeName, None]:
    """The variables in the dimensions and in the attributes of expressions, as keys, in order of their first use."""
    found: dict[SizeName, None] = {}
    for e in exprs:
        attributes = sizes_in(e.attrs) if isinstance(e, Call) and isinstance(e.attrs, OpCard) else []
        for d in (*symbolic_extents(e), *attributes):
            found.update(used_vars(d))
    return found


def named_extents(e: Expr) -> list[SizeName]:
    """The variables that are dimensions of a tensor, so that their values can be read from it."""
    t = type_of(e) or (e.type_annotation if isinstance(e, Var) else None)
    return [d for d in t.shape if isinstance(d, SizeName)] if isinstance(t, TensorType) else []
