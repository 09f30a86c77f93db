"""Nests of loops around one store or one call, which become instructions."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir import PrimExpr
from tilewright.support.errors import TVMError
from tilewright.tir import AttrStmt, BufferStore, Call, Evaluate, For, IfThenElse, Stmt, Var
from tilewright.vta.compiler.grids import Values, evaluate
from tilewright.vta.names import UNIT_SCOPE, UOP_SCOPE

_MARKS = (UNIT_SCOPE, UOP_SCOPE)


class Nest(NamedTuple):
    """Loops (variable, first value, extent), conditions on them, and the statement inside."""

    loops: tuple[tuple[Var, int, int], ...]
    conditions: tuple[PrimExpr, ...]
    inside: Stmt


def nest_of(s: Stmt, values: Values) -> Nest | None:
    """The loops around one store or call; None where there is more inside, or where an extent depends on an inner loop. values: of the
    variables outside."""
    loops, conditions = [], []
    while True:
        if isinstance(s, For):
            try:
                first, extent = (int(evaluate(e, values)) for e in (s.min, s.extent))
            except TVMError:
                return None
            loops.append((s.loop_var, first, extent))
            s = s.body
        elif isinstance(s, AttrStmt) and (s.attr_key.startswith("pragma_") or s.attr_key in _MARKS):
            s = s.body
        elif isinstance(s, IfThenElse) and s.else_case is None:
            conditions.append(s.condition)
            s = s.then_case
        elif isinstance(s, BufferStore) or (isinstance(s, Evaluate) and isinstance(s.value, Call)):
            return Nest(tuple(loops), tuple(conditions), s)
        else:
            return None


__all__ = ["Nest", "nest_of"]
