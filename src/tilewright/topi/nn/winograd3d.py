"""Winograd's minimal filtering over height and width, and over depth if the kernel is deep enough for a gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.ir import PrimExpr
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.nn.winograd import constant_matrix, winograd_transform_matrices
from tilewright.topi.utils import as_int, ceil_div, get_const_int, get_pad_tuple, shape_of, to

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


def transforms_depth(depth: int) -> bool:
    """Whether a kernel of this depth is also transformed along the depth."""
    return 2 < depth < 8


def conv3d_winograd_weight_transform(kernel: te.Tensor, tile_size: int) -> te.Tensor:
    """Weights (O, I, D, K, K) as (tile, tile, tile, O, I) if the depth D is transformed, else (tile, tile, D, O, I), for tiles of
    tile_size + K - 1 elements."""
    o, i, depth, k, _ = [get_const_int(d) for d in kernel.shape]
    _, _, g = winograd_transform_matrices(tile_size, k)
    n = tile_size + k - 1
    matrix = constant_matrix(g, kernel.dtype, "G")
    ry, rx = te.reduce_axis((0, k), name="r_kh"), te.reduce_axis((0, k), name="r_kw")
    if not transforms_depth(depth):

        def flat(y: Var, x: Var, z: Var, co: Var, ci: Var) -> PrimExpr:
            return te.sum(kernel(co, ci, z, ry.var, rx.var) * matrix(y, ry.var) * matrix(x, rx.var), axis=[ry, rx])

        return compute([n, n, depth, o, i], flat, name="transform_weight", tag="transform_weight")
    rz = te.reduce_axis((0, depth), name="r_kd")

    def whole(z: Var, y: Var, x: Var, co: Var, ci: Var) -> Any:
        w = kernel(co, ci, rz.var, ry.var, rx.var)
        return te.sum(w * matrix(z, rz.var) * matrix(y, ry.var) * matrix(x, rx.var), axis=[rz, ry, rx])

    return compute([n, n, n, o, i], whole, name="transform_weight", tag="transform_weight")


def conv3d_winograd_ncdhw_without_weight_transform(
    data: te.Tensor, kernel: te.Tensor, padding: Any, depth: int, tile_size: int, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution of data (N, I, D, H, W) with stride 1 and weights from `conv3d_winograd_weight_transform`; `depth` is that of the
    original kernel."""
    dtype = out_dtype or data.dtype
    n, channels, *extents = shape_of(data)
    places, o = get_const_int(kernel.shape[1]), get_const_int(kernel.shape[3])
    m, k = tile_size, places - tile_size + 1
    inverse_matrix, matrix, _ = winograd_transform_matrices(m, k)
    window = [depth, k, k]
    before, after = get_pad_tuple(padding, window, 3)
    out = [as_int(e + (b + a - w + 1)) for e, b, a, w in zip(extents, before, after, window, strict=True)]
    tiled = [transforms_depth(depth), True, True]
    counts = [ceil_div(e, m) if t else 1 for e, t in zip(out, tiled, strict=True)]
    beyond = [v + m - 1 if t else v for v, t in zip(after, tiled, strict=True)]
    # Tiles at the end may reach past the padding.
    padded = pad(data, [0, 0, *before], [0, 0, *beyond], name="data_pad")
    to_tile, to_result = constant_matrix(matrix, dtype, "B"), constant_matrix(inverse_matrix, dtype, "A")
    axes = 3 if tiled[0] else 2
    tiles = as_int(n * counts[0] * counts[1] * counts[2])

    def split(p: PrimExpr) -> list[PrimExpr]:
        """[image, the tile's positions in depth, height and width] of tile p."""
        found = []
        for c in reversed(counts):
            found.append(tir.floormod(p, c))
            p = tir.floordiv(p, c)
        return [p, *reversed(found)]

    reads = [te.reduce_axis((0, places), name=f"r_{x}") for x in "abc"[:axes]]
    deep = 1 if tiled[0] else as_int(extents[0] + before[0] + after[0])

    def transformed(*at: Var) -> PrimExpr:
        tile, (z, c, p) = at[:axes], at[axes:]
        image, *place = split(p)
        where = [t * m + r.var for t, r in zip(place[3 - axes :], reads, strict=True)]
        value = to(padded(image, c, *([] if tiled[0] else [z]), *where), dtype)
        for r, t in zip(reads, tile, strict=True):
            value = value * to_tile(r.var, t)
        return te.sum(value, axis=reads)

    d = compute([*[places] * axes, deep, channels, tiles], transformed, name="data_pack", tag="winograd_data_pack")
    rc = te.reduce_axis((0, channels), name="ci")
    if tiled[0]:

        def product_of(*at: Var) -> PrimExpr:
            tile, (z, f, p) = at[:3], at[3:]
            return te.sum(to(kernel(*tile, f, rc.var), dtype) * d(*tile, z, rc.var, p), axis=[rc])

        rows = 1
    else:
        rz = te.reduce_axis((0, depth), name="r_kd")

        def product_of(*at: Var) -> PrimExpr:
            tile, (z, f, p) = at[:2], at[2:]
            w = to(kernel(*tile, rz.var, f, rc.var), dtype)
            return te.sum(w * d(*tile, z + rz.var, rc.var, p), axis=[rz, rc])

        rows = out[0]
    product = compute([*[places] * axes, rows, o, tiles], product_of, name="bgemm", tag="winograd_bgemm")
    sums = [te.reduce_axis((0, places), name=f"s_{x}") for x in "abc"[:axes]]

    def inverted(*at: Var) -> PrimExpr:
        (z, f, p), tile = at[:3], at[3:]
        value: PrimExpr = product(*[s.var for s in sums], z, f, p)
        for s, t in zip(sums, tile, strict=True):
            value = value * to_result(s.var, t)
        return te.sum(value, axis=sums)

    inverse = compute([rows, o, tiles, *[m] * axes], inverted, name="inverse", tag="winograd_inverse")

    def element(image: Var, f: Var, *at: Var) -> Any:
        place = [tir.floordiv(x, m) if t else 0 for x, t in zip(at, tiled, strict=True)]
        p = ((image * counts[0] + place[0]) * counts[1] + place[1]) * counts[2] + place[2]
        return inverse(0 if tiled[0] else at[0], f, p, *[tir.floormod(x, m) for x in at[3 - axes :]])

    return compute([n, o, *out], element, name="conv3d_winograd", tag="injective,conv3d_winograd_ncdhw")
