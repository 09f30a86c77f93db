"""The template of convolutions by Winograd's minimal filtering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.nn.pad import pad
from tilewright.topi.nn.winograd import constant_matrix, winograd_transform_matrices
from tilewright.topi.template_stages import TemplateStages, axes_of, extent_of, inner, reduced, shared, spread
from tilewright.topi.utils import get_const_int, get_pad_tuple, pair, shape_of

TILE = 4
"""Rows and columns of the result that a tile has."""
OWN = (
    "data_pad", "tiles", "to_tile", "to_weights", "to_result", "transformed_data", "transformed_weights", "products",
    "half_data", "half_result", "result_tiles", "conv2d_winograd",
)  # fmt: skip


@register_topi_compute("conv2d_nchw_winograd.arm_cpu")
def conv2d_nchw_winograd(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of stride 1 of data (N, C, H, W) with weights (O, C, 3, 3), or with weights that come transformed,
    (6, 6, O / b, C, b).

    Knobs: tile_p and tile_k, whose inner extents are the tiles of the image and the filters that a product of matrices has in
    registers; ann_reduce and ann_spatial, the marks of its loops.
    """
    n, channels, height, width = (get_const_int(d) for d in shape_of(data))
    transformed = len(kernel.shape) == 5
    size = 3 if transformed else get_const_int(kernel.shape[2])
    weights_shape = [get_const_int(d) for d in shape_of(kernel)]
    filters = weights_shape[2] * weights_shape[4] if transformed else weights_shape[0]
    if not transformed and weights_shape[3] != size or pair(strides) != (1, 1) or pair(dilation) != (1, 1):
        raise ValueError("conv2d_nchw_winograd: windows are square, with a stride and a dilation of 1")
    before, after = get_pad_tuple(padding, [size, size])
    rows, columns = (e + b + a - size + 1 for e, b, a in zip((height, width), before, after, strict=True))
    down, across = -(-rows // TILE), -(-columns // TILE)
    alpha, count = TILE + size - 1, n * down * across
    _, vp = cfg.define_split("tile_p", count, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    _, vk = cfg.define_split("tile_k", filters, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_annotate("ann_reduce", [cfg.reduce_axis(channels)], policy="try_unroll")
    cfg.define_annotate("ann_spatial", [vk, vp], policy="try_unroll_vec")
    if cfg.is_fallback:
        cfg.fallback_split("tile_p", [-1, 8])
        cfg.fallback_split("tile_k", [-1, 8])
    bp, bk = inner(cfg["tile_p"]), inner(cfg["tile_k"])
    dtype = out_dtype or data.dtype
    result, points, weights = winograd_transform_matrices(TILE, size)
    to_tile, to_result = constant_matrix(points, dtype, "to_tile"), constant_matrix(result, dtype, "to_result")
    # Tiles at the end reach past the padding.
    more = [after[0] + down * TILE - rows, after[1] + across * TILE - columns]
    padded = pad(data, [0, 0, *before], [0, 0, *more], name="data_pad")

    def tile(c: Any, p: Any, y: Any, x: Any, v: Any) -> Any:
        place = p * bp + v
        image, row = tir.floordiv(place, down * across), tir.floormod(tir.floordiv(place, across), down)
        return padded[image, c, row * TILE + y, tir.floormod(place, across) * TILE + x]

    tiles = te.compute((channels, count // bp, alpha, alpha, bp), tile, name="tiles")
    if transformed:
        turned = kernel
    elif GLOBAL_SCOPE.in_tuning:
        turned = te.placeholder((alpha, alpha, filters // bk, channels, bk), kernel.dtype, "transformed_weights")
    else:
        to_weights = constant_matrix(weights, dtype, "to_weights")
        ky, kx = te.reduce_axis((0, size), "ky"), te.reduce_axis((0, size), "kx")
        turned = te.compute(
            (alpha, alpha, filters // bk, channels, bk),
            lambda e, f, k, c, v: te.sum(
                kernel[k * bk + v, c, ky, kx].astype(dtype) * to_weights[e, ky] * to_weights[f, kx], axis=[ky, kx]
            ),
            name="transformed_weights",
        )
    ry, rx = te.reduce_axis((0, alpha), "ry"), te.reduce_axis((0, alpha), "rx")
    half = te.compute(
        (channels, count // bp, alpha, alpha, bp),
        lambda c, p, e, x, v: te.sum(tiles[c, p, ry, x, v].astype(dtype) * to_tile[ry, e], axis=ry),
        name="half_data",
    )
    values = te.compute(
        (alpha, alpha, count // bp, channels, bp),
        lambda e, f, p, c, v: te.sum(half[c, p, e, rx, v] * to_tile[rx, f], axis=rx),
        name="transformed_data",
    )
    ci = te.reduce_axis((0, channels), "ci")
    products = te.compute(
        (alpha, alpha, filters, count),
        lambda e, f, k, p: te.sum(
            turned[e, f, tir.floordiv(k, bk), ci, tir.floormod(k, bk)]
            * values[e, f, tir.floordiv(p, bp), ci, tir.floormod(p, bp)],
            axis=ci,
        ),
        name="products",
    )
    ey, ex = te.reduce_axis((0, alpha), "ey"), te.reduce_axis((0, alpha), "ex")
    half_parts = te.compute(
        (filters, count, TILE, alpha),
        lambda k, p, y, f: te.sum(products[ey, f, k, p] * to_result[ey, y], axis=ey),
        name="half_result",
    )
    parts = te.compute(
        (filters, count, TILE, TILE),
        lambda k, p, y, x: te.sum(half_parts[k, p, y, ex] * to_result[ex, x], axis=ex),
        name="result_tiles",
    )
    # The operations of the convolution, not of this way to compute it.
    cfg.add_flop(2 * n * filters * rows * columns * size * size * channels)
    return te.compute(
        (n, filters, rows, columns),
        lambda b, k, y, x: parts[
            k,
            b * (down * across) + tir.floordiv(y, TILE) * across + tir.floordiv(x, TILE),
            tir.floormod(y, TILE),
            tir.floormod(x, TILE),
        ],
        name="conv2d_winograd",
        tag="winograd_conv2d_output",
    )


@register_topi_schedule("conv2d_nchw_winograd.arm_cpu")
def schedule_conv2d_nchw_winograd(cfg: Any, outs: Any) -> te.Schedule:
    """Transforms whose constant matrices are unrolled, around products of matrices in tiles."""
    stages = TemplateStages(outs, OWN, "conv2d_winograd")
    s, found = stages.schedule, stages.found
    for name in ("to_tile", "to_weights", "to_result"):
        if name in found:
            s[found[name]].compute_inline()
    stages.moved("data_pad")
    if stages.last is not stages.anchor:
        s[stages.anchor].compute_inline()
    spread(s, stages.last)
    if "transformed_weights" in found:
        weights = found["transformed_weights"]
        e, f, k, c, v = axes_of(s, weights)
        ky, kx = reduced(s, weights)
        s[weights].reorder(k, c, e, f, ky, kx, v)
        shared(s, weights, [k])
        _unrolled(s, weights, [e, f, ky, kx])
        s[weights].vectorize(v)
    values, tiles = found["transformed_data"], found["tiles"]
    e, f, p, c, v = axes_of(s, values)
    (rx,) = reduced(s, values)
    s[values].reorder(p, c, e, f, rx, v)
    shared(s, values, [p])
    _unrolled(s, values, [e, f, rx])
    s[values].vectorize(v)
    half = found["half_data"]
    for stage in (tiles, half):
        s[stage].compute_at(s[values], c)
    _, _, e, x, v = axes_of(s, half)
    (ry,) = reduced(s, half)
    s[half].reorder(e, x, ry, v)
    _unrolled(s, half, [e, x, ry])
    s[half].vectorize(v)
    products = found["products"]
    e, f, k, p = axes_of(s, products)
    (ci,) = reduced(s, products)
    ko, ki = cfg["tile_k"].apply(s, products, k)
    po, pi = cfg["tile_p"].apply(s, products, p)
    s[products].reorder(e, f, ko, po, ci, ki, pi)
    cfg["ann_reduce"].apply(s, products, [ci], axis_lens=[extent_of(ci)], max_unroll=16, cfg=cfg)
    lengths = [inner(cfg["tile_k"]), inner(cfg["tile_p"])]
    cfg["ann_spatial"].apply(s, products, [ki, pi], axis_lens=lengths, max_unroll=16, cfg=cfg)
    shared(s, products, [e, f, ko])
    parts = found["result_tiles"]
    half = found["half_result"]
    k, p, y, x = axes_of(s, parts)
    s[half].compute_at(s[parts], p)
    shared(s, parts, [k])
    _unrolled(s, parts, [y, x, *reduced(s, parts)])
    _, _, y, f = axes_of(s, half)
    _unrolled(s, half, [y, f, *reduced(s, half)])
    return s


def _unrolled(s: te.Schedule, tensor: te.Tensor, axes: Sequence[Any]) -> None:
    for axis in axes:
        s[tensor].unroll(axis)
