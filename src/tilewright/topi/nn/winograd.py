"""Winograd's minimal filtering in two dimensions: transformed weights, and convolution with them.

The matrices are those of Toom and Cook: a convolution is a product of polynomials, which are evaluated at as many points as a tile has
elements; the product is interpolated (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.utils import as_int, ceil_div, get_const_int, get_pad_tuple, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


_POINTS = [Fraction(*p) for p in ((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (-1, 2), (3, 1), (-3, 1), (1, 3))]


def winograd_transform_matrices(tile_size: int, kernel_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, B, G): a tile d of tile_size + kernel_size - 1 elements and weights g give A^T ((G g) * (B^T d)). Raises ValueError for
    tiles with more elements than there are points."""
    n = tile_size + kernel_size - 1
    if n - 1 > len(_POINTS):
        raise ValueError(f"winograd: tile_size + kernel_size - 1 must be at most {len(_POINTS) + 1}, but is {n}")
    return transform_matrices(tile_size, kernel_size, _POINTS)


def transform_matrices(
    tile_size: int, kernel_size: int, points: list[Fraction]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, B, G) for polynomials that are evaluated at the first tile_size + kernel_size - 2 of `points`, and at infinity."""
    n = tile_size + kernel_size - 1
    points = points[: n - 1]

    def polynomial(roots: list[Fraction]) -> list[Fraction]:
        found = [Fraction(1)]
        for r in roots:
            shifted = [Fraction(0), *found]
            found = [a - r * b for a, b in zip(shifted, [*found, Fraction(0)], strict=True)]
        return found

    a = [[p**i for p in points] + [Fraction(i == tile_size - 1)] for i in range(tile_size)]
    g, b = [], []
    for j, p in enumerate(points):
        rest = points[:j] + points[j + 1 :]
        scale = Fraction(1)
        for q in rest:
            scale *= p - q
        g.append([p**k / scale for k in range(kernel_size)])
        b.append([*polynomial(rest), Fraction(0)])
    g.append([Fraction(k == kernel_size - 1) for k in range(kernel_size)])
    b.append(polynomial(points))

    def array(rows: list[list[Fraction]]) -> np.ndarray:
        return np.array([[float(v) for v in row] for row in rows], np.float64)

    return array(a).T, array(b).T, array(g)


def constant_matrix(values: np.ndarray, dtype: str, name: str) -> te.Tensor:
    """A small constant matrix. Its elements become constants in the code."""

    def element(i: Var, j: Var) -> Any:
        found = tir.const(float(values[-1, -1]), dtype)
        for r, c in reversed(list(np.ndindex(*values.shape))[:-1]):
            here = tir.all(tir.EQ(i, r), tir.EQ(j, c))
            found = tir.Select(here, tir.const(float(values[r, c]), dtype), found)
        return found

    return compute(values.shape, element, name=name, tag="injective,const_matrix")


def winograd_weight_transform(kernel: te.Tensor, tile_size: int) -> te.Tensor:
    """Weights (O, I, K, K) as (tile, tile, I, O), for tiles of tile_size + K - 1 elements."""
    o, i, k, _ = [get_const_int(d) for d in kernel.shape]
    _, _, g = winograd_transform_matrices(tile_size, k)
    n = tile_size + k - 1
    matrix = constant_matrix(g, kernel.dtype, "G")
    ry, rx = te.reduce_axis((0, k), name="r_kh"), te.reduce_axis((0, k), name="r_kw")

    def element(y: Var, x: Var, ci: Var, co: Var) -> Any:
        return te.sum(kernel(co, ci, ry.var, rx.var) * matrix(y, ry.var) * matrix(x, rx.var), axis=[ry, rx])

    return compute([n, n, i, o], element, name="transform_weight", tag="transform_weight")


def conv2d_winograd_nchw_without_weight_transform(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    tile_size: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, I, H, W) with stride 1 and weights from `winograd_weight_transform`."""
    dtype = out_dtype or data.dtype
    n, channels, height, width = shape_of(data)
    tile, _, _, o = [get_const_int(d) for d in kernel.shape]
    m, k = tile_size, tile - tile_size + 1
    a, b, _ = winograd_transform_matrices(m, k)
    before, after = get_pad_tuple(padding, [k, k])
    oh, ow = as_int(height + (before[0] + after[0] - k + 1)), as_int(width + (before[1] + after[1] - k + 1))
    rows, columns = ceil_div(oh, m), ceil_div(ow, m)
    # Tiles at the end may reach past the padding.
    padded = pad(data, [0, 0, *before], [0, 0, after[0] + m - 1, after[1] + m - 1], name="data_pad")
    to_tile, to_result = constant_matrix(b, dtype, "B"), constant_matrix(a, dtype, "A")
    ry, rx = te.reduce_axis((0, tile), name="r_a"), te.reduce_axis((0, tile), name="r_b")

    def split(p: Var) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
        return tir.floordiv(p, rows * columns), tir.floormod(tir.floordiv(p, columns), rows), tir.floormod(p, columns)

    def transformed(y: Var, x: Var, c: Var, p: Var) -> PrimExpr:
        image, row, column = split(p)
        value = to(padded(image, c, row * m + ry.var, column * m + rx.var), dtype)
        return te.sum(value * to_tile(ry.var, y) * to_tile(rx.var, x), axis=[ry, rx])

    tiles = as_int(n * rows * columns)
    d = compute([tile, tile, channels, tiles], transformed, name="data_pack", tag="winograd_data_pack")
    rc = te.reduce_axis((0, channels), name="ci")
    product = compute(
        [tile, tile, o, tiles],
        lambda y, x, f, p: te.sum(to(kernel(y, x, rc.var, f), dtype) * d(y, x, rc.var, p), axis=[rc]),
        name="bgemm",
        tag="winograd_bgemm",
    )
    sy, sx = te.reduce_axis((0, tile), name="r_y"), te.reduce_axis((0, tile), name="r_x")
    inverse = compute(
        [o, tiles, m, m],
        lambda f, p, y, x: te.sum(
            product(sy.var, sx.var, f, p) * to_result(sy.var, y) * to_result(sx.var, x), axis=[sy, sx]
        ),
        name="inverse",
        tag="winograd_inverse",
    )

    def element(image: Var, f: Var, y: Var, x: Var) -> Any:
        p = (image * rows + tir.floordiv(y, m)) * columns + tir.floordiv(x, m)
        return inverse(f, p, tir.floormod(y, m), tir.floormod(x, m))

    return compute([n, o, oh, ow], element, name="conv2d_winograd", tag="injective,conv2d_winograd_nchw")
