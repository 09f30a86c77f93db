"""Products of matrices by Strassen's algorithm: seven products of blocks of half the size instead of eight.

    [a00 a01]   [b00 b01]   [c00 c01]
    [a10 a11] . [b10 b11] = [c10 c11]

Each of the seven factors is a sum of blocks of `a` times a sum of blocks of `b`; each block of the result is a sum of factors (V. Strassen,
Gaussian Elimination is not Optimal, Numerische Mathematik 13, 1969). The blocks of `a` have every other row and half of the columns, so
that a few neighbouring rows are a product by themselves. The sums of blocks of constant weights are made once.

Sums are taken in another order: the largest error is about twice that of the plain product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.constant_rows import row_of_product
from tilewright.topi.planner import planner
from tilewright.topi.stages import CHANNEL_BLOCKS, MATERIALIZE, MATRIX, STRASSEN
from tilewright.topi.utils import get_const_int, shape_of, to

if TYPE_CHECKING:
    from tilewright.tir.expr import Var

FACTORS = 7
LEFT = np.array(
    [[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 0], [-1, 0, 1, 0], [0, 1, 0, -1]], np.float64
)
"""The left side of each factor as a sum of the blocks a00, a01, a10, a11."""
RIGHT = np.array(
    [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]], np.float64
)
"""The right side of each factor as a sum of the blocks b00, b01, b10, b11."""
RESULT = np.array(
    [[1, 0, 0, 1, -1, 0, 1], [0, 0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0, 0], [1, -1, 1, 0, 0, 1, 0]], np.float64
)
"""The blocks c00, c01, c10, c11 as sums of the factors."""


def strassen_weights(weights: np.ndarray, panel: int) -> np.ndarray:
    """Weights (K, N) as (N // 2 // panel * 7, K // 2, panel): for each panel of columns the right sides of the seven factors. K must be
    even, and N a multiple of 2 * panel. Sums are computed in the type of the weights."""
    inner, columns = weights.shape
    k, n = inner // 2, columns // 2
    blocks = [weights[:k, :n], weights[:k, n:], weights[k:, :n], weights[k:, n:]]
    made = np.empty((n // panel, FACTORS, k, panel), weights.dtype)
    for f, signs in enumerate(RIGHT):
        total = sum([b if s > 0 else -b for s, b in zip(signs, blocks, strict=True) if s])
        made[:, f] = np.asarray(total).reshape(k, n // panel, panel).transpose(1, 0, 2)
    return made.reshape(-1, k, panel)


def np_product(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The product of a matrix and weights from `strassen_weights`, in NumPy: what the kernels compute."""
    pairs = np.pad(data, ((0, len(data) % 2), (0, 0)), "edge").reshape(-1, 4, data.shape[-1] // 2)
    left = np.einsum("fb,rbk->frk", LEFT, pairs)
    right = weight.reshape(-1, FACTORS, *weight.shape[1:]).transpose(1, 2, 0, 3).reshape(FACTORS, left.shape[-1], -1)
    blocks = np.einsum("bf,frn->rbn", RESULT, left @ right)
    return np.asarray(blocks.reshape(2 * len(pairs), -1)[: len(data)])


def dense_strassen(data: te.Tensor, weight: te.Tensor, out_dtype: str | None = None) -> te.Tensor:
    """data (.., K) times weights from `strassen_weights`: (.., N). Rows are counted along all leading axes."""
    lead = shape_of(data)[:-1]
    block, n = _blocks(lambda row, c: data(*_place(row, lead), c), lead, weight, out_dtype or data.dtype, MATRIX)
    return _result([*lead, 2 * n], lambda *i: block(_row(i[:-1], lead), i[-1]))


def _row(indices: Sequence[Any], extents: Sequence[int]) -> Any:
    """The number of an element."""
    row: Any = 0
    for i, extent in zip(indices, extents, strict=True):
        row = i if extent == prod(extents) else row * extent + i if extent != 1 else row
    return row


def _place(row: Any, extents: Sequence[int]) -> list[Any]:
    """The indices of an element by its number."""
    found: list[Any] = []
    for extent in reversed(extents):
        whole = extent == prod(extents)
        found.append(row if whole else tir.floormod(row, extent) if extent != 1 else 0)
        row = 0 if whole else tir.floordiv(row, extent) if extent != 1 else row
    return found[::-1]


def conv2d_strassen_NCHWc(data: te.Tensor, weight: te.Tensor, block: int, out_dtype: str | None = None) -> te.Tensor:
    """Convolution of 1 x 1: data (1, C/b, H, W, b) times weights from `strassen_weights`, of C rows: (1, O/block, H, W, block)."""
    _, _, height, width, b = shape_of(data)

    def read(row: Any, c: Any) -> Any:
        return data(0, tir.floordiv(c, b), *_place(row, [height, width]), tir.floormod(c, b))

    at, n = _blocks(read, [height, width], weight, out_dtype or data.dtype, CHANNEL_BLOCKS)
    shape = [1, 2 * n // block, height, width, block]
    return _result(shape, lambda i, fo, y, x, fb: at(_row([y, x], [height, width]), fo * block + fb))


def _blocks(
    read: Callable[[Any, Any], Any], rows: Sequence[int], weight: te.Tensor, dtype: str, kind: str
) -> tuple[Callable[[Any, Any], Any], int]:
    """(element of the result by row and column, half of the columns) of the product of the matrix `read`. rows: the extents of its leading
    axes."""
    panels, k, panel = [get_const_int(d) for d in weight.shape]
    n = panels // FACTORS * panel
    m = prod(rows)
    pairs = -(-m // 2)
    if kind == MATRIX and max(rows, default=1) == m:
        pairs = planner().packed_rows([pairs], panel, dtype) or pairs

    def block(a: int, r: Var, c: Var) -> Any:
        row = r * 2 + a // 2
        return to(read(tir.min(row, m - 1) if 2 * pairs > m else row, c + a % 2 * k), dtype)

    left = compute(
        [FACTORS, pairs, k],
        lambda f, r, c: row_of_product(LEFT, f, lambda a: block(a, r, c)),
        name="strassen_left", tag="injective", attrs={MATERIALIZE: 1},
    )  # fmt: skip
    rc = te.reduce_axis((0, k), name="rc")

    def factor(f: Var, r: Var, c: Var) -> Any:
        value = weight(tir.floordiv(c, panel) * FACTORS + f, rc.var, tir.floormod(c, panel))
        return te.sum(left(f, r, rc.var) * to(value, dtype), axis=[rc])

    factors = compute(
        [FACTORS, pairs, n], factor, name="strassen_product", tag="strassen_product", attrs={STRASSEN: kind}
    )

    def element(row: Any, column: Any) -> Any:
        place = tir.floormod(row, 2) * 2 + tir.floordiv(column, n)
        return row_of_product(RESULT, place, lambda f: factors(f, tir.floordiv(row, 2), tir.floormod(column, n)))

    return element, n


def _result(shape: list[Any], element: Callable[..., Any]) -> te.Tensor:
    return compute(shape, element, name="strassen_result", tag="injective", attrs={MATERIALIZE: 1})


__all__ = ["FACTORS", "conv2d_strassen_NCHWc", "dense_strassen", "np_product", "strassen_weights"]
