"""einsum: sums of products by a subscript string."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute
from tilewright.topi.utils import Dim, shape_of

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


def parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The subscripts of each operand and of the result, with letters in place of an ellipsis. Raises ValueError for an invalid
    string."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {subscripts!r} has {len(terms)} operands, but {len(ranks)} were given")
    free = [c for c in string.ascii_uppercase + string.ascii_lowercase if c not in text]
    most = max([r - len(t.replace("...", "")) for t, r in zip(terms, ranks, strict=True) if "..." in t], default=0)
    spread = "".join(free[:most])
    out_terms = []
    for k, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        own = rank - len(term.replace("...", ""))
        whole = term.replace("...", spread[most - own :] if own else "")
        if len(whole) != rank or not whole.isalpha() and whole:
            raise ValueError(f"einsum: operand {k} has {rank} axes, but its subscripts are {term!r}")
        out_terms.append(whole)
    every = "".join(out_terms)
    if arrow:
        result = right.replace("...", spread)
    else:
        result = spread + "".join(sorted({c for c in every if every.count(c) == 1 and c not in spread}))
    for c in result:
        if c not in every or result.count(c) > 1:
            raise ValueError(
                f"einsum: the result's subscript {c!r} must occur once there, and in an operand: {subscripts!r}"
            )
    return out_terms, result


def extents(terms: Sequence[str], shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim]:
    """The extent of each subscript. A static extent takes precedence over a dynamic one. Raises ValueError if two static extents
    differ and neither is 1."""
    found: dict[str, Dim] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, d in zip(term, shape, strict=True):
            known = found.get(c)
            if (
                known is None
                or (isinstance(known, int) and known == 1)
                or (isinstance(d, int) and not isinstance(known, int) and d != 1)
            ):
                found[c] = d
            elif isinstance(known, int) and isinstance(d, int) and d not in (1, known):
                raise ValueError(f"einsum: the subscript {c!r} stands for {known} and for {d}")
    return found


def einsum(subscripts: str, *operand: te.Tensor) -> te.Tensor:
    """Sums of products of the operands. Subscripts that are not in the result are summed over. Raises ValueError for an invalid string."""
    operands = list(operand[0]) if len(operand) == 1 and isinstance(operand[0], (list, tuple)) else list(operand)
    shapes = [shape_of(t) for t in operands]
    terms, result = parse(subscripts, [len(s) for s in shapes])
    sizes = extents(terms, shapes)
    summed = [c for c in dict.fromkeys("".join(terms)) if c not in result]
    axes = {c: te.reduce_axis((0, sizes[c]), name=f"k_{c}") for c in summed}

    def element(*i: Var) -> Any:
        at = {**dict(zip(result, i, strict=True)), **{c: a.var for c, a in axes.items()}}
        value: Any = None
        for t, term, shape in zip(operands, terms, shapes, strict=True):
            index = [0 if isinstance(d, int) and d == 1 else at[c] for c, d in zip(term, shape, strict=True)]
            factor = t(*index)
            value = factor if value is None else value * factor
        return te.sum(value, axis=list(axes.values())) if axes else value

    kind = tag.COMM_REDUCE if axes else tag.INJECTIVE
    return compute([sizes[c] for c in result], element, name="T_einsum", tag=kind)
