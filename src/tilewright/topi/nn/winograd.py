"""Winograd's minimal filtering in two dimensions: transformed weights, and convolution with them.

The matrices are those of Toom and Cook: a convolution is a product of polynomials, which are evaluated at as many points as a tile has
elements; the product is interpolated (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import te
from tilewright.topi.index_utils import InvalidShapeError
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.transform import transpose
from tilewright.topi.utils import as_int, ceil_div, get_const_int, get_pad_tuple, in_own_layout, pair, shape_of, to

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


conv2d_winograd_weight_transform = winograd_weight_transform


def conv2d_winograd_nnpack_weight_transform(
    kernel: te.Tensor, convolution_algorithm: int, out_dtype: str | None = None
) -> te.Tensor:
    """Weights (O, I, 3, 3) as (O, I, 8, 8), for tiles of six by six results."""
    del convolution_algorithm
    o, i, k, _ = [get_const_int(d) for d in kernel.shape]
    if k != 3:
        raise InvalidShapeError(f"conv2d_winograd_nnpack_weight_transform: kernels must be 3 by 3, but are {k} by {k}")
    dtype = out_dtype or kernel.dtype
    matrix = constant_matrix(winograd_transform_matrices(6, 3)[2], dtype, "G")
    ry, rx = te.reduce_axis((0, 3), name="r_kh"), te.reduce_axis((0, 3), name="r_kw")

    def element(co: Var, ci: Var, y: Var, x: Var) -> Any:
        weight = to(kernel(co, ci, ry.var, rx.var), dtype)
        return te.sum(weight * matrix(y, ry.var) * matrix(x, rx.var), axis=[ry, rx])

    return compute([o, i, 8, 8], element, name="transform_weight", tag="transform_weight")


def _unit_steps(strides: Any, dilation: Any) -> None:
    if {*pair(strides), *pair(dilation)} != {1}:
        raise InvalidShapeError(
            f"Winograd's form has strides and dilations of 1, but they are {pair(strides)} and {pair(dilation)}"
        )


def conv2d_winograd_nchw(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """Convolution of data (N, I, H, W) by Winograd's form with strides of 1: weights (O, I, K, K), or `pre_computed` by
    `conv2d_winograd_weight_transform`. Raises InvalidShapeError for kernels that are not square."""
    if pre_computed:
        return conv2d_winograd_nchw_without_weight_transform(
            data, weight, strides, padding, dilation, out_dtype,
            auto_scheduler_rewritten_layout, meta_schedule_original_shape,
        )  # fmt: skip
    in_own_layout("conv2d_winograd_nchw", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    kh, kw = [get_const_int(d) for d in weight.shape[2:]]
    if kh != kw:
        raise InvalidShapeError(f"conv2d_winograd_nchw: kernels must be square, but are {kh} by {kw}")
    # Larger tiles need fewer multiplications, but the last ones reach beyond rows that they do not divide.
    rows = shape_of(data)[2]
    m = 4 if isinstance(rows, int) and rows % 8 == 0 else 2
    transformed = winograd_weight_transform(weight, m)
    return conv2d_winograd_nchw_without_weight_transform(
        data, transformed, strides, padding, dilation, out_dtype, tile_size=m
    )


def conv2d_winograd_nhwc(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """Convolution of data (N, H, W, I) by Winograd's form with strides of 1: weights (K, K, I, O), or transformed ones (tile, tile, O, I)
    with `pre_computed`."""
    turned = transpose(weight, (0, 1, 3, 2) if pre_computed else (3, 2, 0, 1))
    plain = conv2d_winograd_nchw(
        transpose(data, (0, 3, 1, 2)), turned, strides, padding, dilation, out_dtype, pre_computed,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape,
    )  # fmt: skip
    return transpose(plain, (0, 2, 3, 1))


def conv2d_winograd_nhwc_without_weight_transform(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with stride 1 and weights that are transformed: (tile, tile, O, I)."""
    return conv2d_winograd_nhwc(
        data, weight, strides, padding, dilation, out_dtype, True,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape,
    )  # fmt: skip


def conv2d_winograd_nchw_without_weight_transform(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
    tile_size: int | None = None,
) -> te.Tensor:
    """Convolution of data (N, I, H, W) with stride 1 and weights from `winograd_weight_transform`. tile_size: the results along a side of a
    tile; by default those of kernels 3 by 3."""
    in_own_layout("Winograd's convolution", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    _unit_steps(strides, dilation)
    dtype = out_dtype or data.dtype
    n, channels, height, width = shape_of(data)
    tile, _, _, o = [get_const_int(d) for d in weight.shape]
    m = tile - 2 if tile_size is None else tile_size
    k = tile - m + 1
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
        lambda y, x, f, p: te.sum(to(weight(y, x, rc.var, f), dtype) * d(y, x, rc.var, p), axis=[rc]),
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
