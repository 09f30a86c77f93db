"""Winograd's minimal filtering on channel blocks, which convolutions of whole models use.

The stages: transform the columns of a tile of data, then its rows; a matrix product (tiles x channels by channels x filters) for
each position in a tile, which is most of the work; transform the columns and rows of the result.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.constant_rows import row_of_product
from tilewright.topi.nn.winograd import transform_matrices
from tilewright.topi.stages import MATERIALIZE, WINOGRAD_TILE
from tilewright.topi.utils import as_int, ceil_div, get_const_int, get_pad_tuple, shape_of, to

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


POINTS = [Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2)]
"""The points of evaluation. For tiles of 4 they give the smallest error: with 256 channels it is 3.5e-6 of the largest result. With 2
instead of 1/2 it would be 1.0e-5; with tiles of 2 it is 5e-7, and of a direct convolution 3e-7."""


def matrices(tile_size: int, kernel: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A^T, B^T, G) at POINTS: results are A^T ((G g G^T) * (B^T d B)) A."""
    a, b, g = transform_matrices(tile_size, kernel, POINTS)
    return a.T, b.T, g


def winograd_weights(weights: np.ndarray, tile_size: int, panel: int) -> np.ndarray:
    """Weights (O, I, K, K) transformed to (tile * tile, O // panel, I, panel), with tile = tile_size + K - 1. Computed in float64."""
    o, i, kernel, _ = weights.shape
    _, _, g = matrices(tile_size, kernel)
    both = np.kron(g, g)
    out = own_pages((len(both), o // panel, i, panel), weights.dtype)
    # Panel by panel, since float64 copies of all weights would set the peak of memory of a compilation.
    for k in range(o // panel):
        part = weights[k * panel : (k + 1) * panel].reshape(panel, i, -1).transpose(2, 1, 0).astype(np.float64)
        out[:, k] = (both @ part.reshape(kernel * kernel, -1)).reshape(-1, i, panel)
    return out


def own_pages(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose memory is returned to the system when it is freed. malloc often keeps memory of this size."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    pages = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def conv2d_winograd_NCHWc(
    data: te.Tensor, weight: te.Tensor, padding: Any, tile_size: int, block: int, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution with stride 1: data (N, C/b, H, W, b), weights (tile * tile, O/panel, C, panel) from `winograd_weights`: (N,
    O/block, OH, OW, block)."""
    dtype = out_dtype or data.dtype
    n, outer, height, width, b = shape_of(data)
    places, panels, channels, panel = [get_const_int(d) for d in weight.shape]
    m = tile_size
    tile = round(places**0.5)
    kernel = tile - m + 1
    before, after = get_pad_tuple(padding, [kernel, kernel])
    oh, ow = as_int(height + (before[0] + after[0] - kernel + 1)), as_int(width + (before[1] + after[1] - kernel + 1))
    rows, columns = ceil_div(oh, m), ceil_div(ow, m)
    # Tiles are numbered over all images, or in each image if the number of images is dynamic.
    apart = n == 1 or not isinstance(n, int)
    images, tiles = (n, as_int(rows * columns)) if apart else (1, as_int(n * (rows * columns)))
    filters = panels * panel
    to_result, to_tile, _ = matrices(m, kernel)

    def stage(shape: list[Any], element: Callable[..., Any], name: str) -> te.Tensor:
        return compute(shape, element, name=f"winograd_{name}", tag="injective", attrs={MATERIALIZE: 1})

    def read(a: Var, t: Var, co: Any, i: Var, j: Var, cb: Var) -> Any:
        image, at = (a, t) if apart else (tir.floordiv(t, rows * columns), tir.floormod(t, rows * columns))
        y = tir.floordiv(at, columns) * m + i - before[0]
        x = tir.floormod(at, columns) * m + j - before[1]
        inside = tir.all(y >= 0, y < height, x >= 0, x < width)
        return tir.if_then_else(inside, data(image, co, y, x, cb), tir.const(0, data.dtype))

    d = stage([images, tiles, outer, tile, tile, b], read, "tile")
    half = stage(
        [images, tiles, outer, tile, tile, b],
        lambda a, t, co, i, j, cb: row_of_product(to_tile, i, lambda k: d(a, t, co, k, j, cb)),
        "columns",
    )

    def by_row(p: Var, a: Var, t: Var, c: Var) -> Any:
        i, j, co, cb = tir.floordiv(p, tile), tir.floormod(p, tile), tir.floordiv(c, b), tir.floormod(c, b)
        return row_of_product(to_tile, j, lambda k: half(a, t, co, i, k, cb))

    ready = stage([places, images, tiles, channels], by_row, "data")
    rc = te.reduce_axis((0, channels), name="rc")

    def product(p: Var, a: Var, t: Var, f: Var) -> Any:
        value = weight(p, tir.floordiv(f, panel), rc.var, tir.floormod(f, panel))
        return te.sum(to(ready(p, a, t, rc.var), dtype) * to(value, dtype), axis=[rc])

    met = compute(
        [places, images, tiles, filters], product, name="winograd_product", tag="winograd_product",
        attrs={WINOGRAD_TILE: m},
    )  # fmt: skip
    back = stage(
        [images, tiles, filters // block, m, tile, block],
        lambda a, t, fo, i, j, fb: row_of_product(to_result, i, lambda k: met(k * tile + j, a, t, fo * block + fb)),
        "back",
    )
    inverse = stage(
        [images, tiles, filters // block, m, m, block],
        lambda a, t, fo, i, j, fb: row_of_product(to_result, j, lambda k: back(a, t, fo, i, k, fb)),
        "inverse",
    )

    def element(image: Var, fo: Var, y: Var, x: Var, fb: Var) -> Any:
        a, first = (image, 0) if apart else (0, image * rows)
        t = (first + tir.floordiv(y, m)) * columns + tir.floordiv(x, m)
        return inverse(a, t, fo, tir.floormod(y, m), tir.floormod(x, m), fb)

    return stage([n, filters // block, oh, ow, block], element, "result")
