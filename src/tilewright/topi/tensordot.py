"""Products of tensors over several axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute
from tilewright.topi.nn.dense import matmul as product
from tilewright.topi.utils import known_equal, normalize_axis, shape_of

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> te.Tensor:
    """a (M, K) times b (K, N), each transposed on request: (M, N)."""
    return product(a, b, transpose_a=transp_a, transpose_b=transp_b)


def tensordot(a: te.Tensor, b: te.Tensor, axes: int | Sequence[Any] = 2) -> te.Tensor:
    """The sum of products over pairs of axes, as in NumPy.

    axes: the number of last axes of a that meet as many first axes of b, or a pair of the axes of a and of b (a number or a sequence each).
    Raises ValueError for extents that differ.
    """
    left, right = shape_of(a), shape_of(b)
    if isinstance(axes, int):
        if axes > min(len(left), len(right)):
            raise ValueError(f"tensordot: there are no {axes} axes of both {left} and {right}")
        firsts, seconds = list(range(len(left) - axes, len(left))), list(range(axes))
    else:
        chosen = [[v] if isinstance(v, int) else [int(k) for k in v] for v in axes]
        firsts, seconds = ([normalize_axis(k, len(s)) for k in ks] for ks, s in zip(chosen, (left, right), strict=True))
    if len(firsts) != len(seconds) or not all(
        [known_equal(left[p], right[q]) for p, q in zip(firsts, seconds, strict=False)]
    ):
        raise ValueError(f"tensordot: axes {firsts} of {left} and {seconds} of {right} must be as many, and as long")
    ks = [te.reduce_axis((0, left[p]), name=f"k{n}") for n, p in enumerate(firsts)]
    kept = [p for p in range(len(left)) if p not in firsts]
    others = [q for q in range(len(right)) if q not in seconds]

    def element(*i: Var) -> Any:
        first: list[Any] = [None] * len(left)
        second: list[Any] = [None] * len(right)
        for p, v in zip(kept, i[: len(kept)], strict=True):
            first[p] = v
        for q, v in zip(others, i[len(kept) :], strict=True):
            second[q] = v
        for p, q, k in zip(firsts, seconds, ks, strict=True):
            first[p] = second[q] = k.var
        value = a(*first) * b(*second)
        return te.sum(value, axis=ks) if ks else value

    shape = [*[left[p] for p in kept], *[right[q] for q in others]]
    return compute(shape, element, name="T_tensordot", tag="matmul" if ks else "injective")
