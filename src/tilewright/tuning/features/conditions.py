"""For which share of the iterations a condition holds."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm
from tilewright.tir.expr import EQ, GE, GT, LE, LT, And, Call, Not
from tilewright.tuning.features.linear import Indices, range_of, resolved


def share_of(e: Any, indices: Indices) -> float:
    """The share of the iterations for which a condition holds; 1 where it is not known."""
    kind = type(e)
    if kind is IntImm:
        return 1.0 if e.value else 0.0
    if kind is And:
        return share_of(e.a, indices) * share_of(e.b, indices)
    if kind is Not:
        return 1 - share_of(e.a, indices)
    if kind is Call and getattr(e.op, "name", "") == "tir.likely":
        return share_of(e.args[0], indices)
    if kind not in (LT, LE, GT, GE, EQ):
        return 1.0
    a, b = indices.read(e.a), indices.read(e.b)
    if b[1]:
        if a[1]:
            return 1.0
        a, b, kind = b, a, {LT: GT, LE: GE, GT: LT, GE: LE, EQ: EQ}[kind]
    constant, terms = resolved(a)
    least, most = range_of((constant, terms))
    if kind is EQ:
        return 1 / (most - least + 1) if least <= b[0] <= most else 0.0
    below = b[0] - least + (kind in (LE, GT))
    holds = min(max(below / (most - least + 1), 0.0), 1.0)
    return holds if kind in (LT, LE) else 1 - holds
