"""Shapes and reshaping as the virtual machine computes them (classic `relay.op.vm`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.expr import Expr
from tilewright.relay.op.card import constructor

__all__ = ["reshape_tensor", "shape_of"]


def shape_of(expr: Expr) -> Any:
    """The shape of a tensor, known when the program runs, as int64 numbers."""
    return constructor("shape_of")(expr, dtype="int64")


def reshape_tensor(data: Expr, shape: Expr, newshape: Sequence[Any]) -> Any:
    """A tensor in the shape that another tensor holds. newshape: the same as far as it is known (`Any` where it is not)."""
    known = all([isinstance(d, int) or hasattr(d, "value") for d in newshape])
    return constructor("reshape")(data, [int(d) for d in newshape] if known else shape)
