"""Blocks of places moved into channels and back, flattened data, and buffers of the last elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.transform import reshape, transpose
from tilewright.topi.utils import as_int, normalize_axis, prod, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


def depth_to_space(data: te.Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> te.Tensor:
    """(N, C * b * b, H, W) -> (N, C, H * b, W * b), or the same with channels last. mode: "DCR" if channels vary fastest among those of a
    place, "CRD" if the places of a block do."""
    if layout not in ("NCHW", "NHWC") or mode not in ("DCR", "CRD"):
        raise ValueError(f"depth_to_space takes NCHW or NHWC, and mode DCR or CRD, but they are {layout} and {mode}")
    if layout == "NHWC":
        return transpose(depth_to_space(transpose(data, (0, 3, 1, 2)), block_size, "NCHW", mode), (0, 2, 3, 1))
    n, c, h, w = shape_of(data)
    b = block_size
    depth = as_int(c // (b * b))
    split, order = (
        ([n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2]) if mode == "DCR" else ([n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3])
    )
    return reshape(transpose(reshape(data, split), order), [n, depth, as_int(h * b), as_int(w * b)])


def space_to_depth(data: te.Tensor, block_size: int, layout: str = "NCHW") -> te.Tensor:
    """(N, C, H * b, W * b) -> (N, b * b * C, H, W), or the same with channels last; channels vary fastest."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"space_to_depth takes NCHW or NHWC, but the layout is {layout}")
    if layout == "NHWC":
        return transpose(space_to_depth(transpose(data, (0, 3, 1, 2)), block_size), (0, 2, 3, 1))
    n, c, h, w = shape_of(data)
    b = block_size
    rows, columns = as_int(h // b), as_int(w // b)
    split = reshape(data, [n, c, rows, b, columns, b])
    return reshape(transpose(split, [0, 3, 5, 1, 2, 4]), [n, as_int(c * (b * b)), rows, columns])


def flatten(data: te.Tensor) -> te.Tensor:
    """data with all axes but the first merged into one."""
    shape = shape_of(data)
    return reshape(data, [shape[0], prod(shape[1:])])


def fifo_buffer(data: te.Tensor, buffer: te.Tensor, axis: int) -> te.Tensor:
    """`buffer` followed by `data` along `axis`, without as many elements at the front: the length stays that of `buffer`."""
    at = normalize_axis(axis, len(buffer.shape))
    have, new = shape_of(buffer)[at], shape_of(data)[at]

    def element(*i: PrimExpr) -> Any:
        place = i[at] + new
        old = buffer(*i[:at], tir.min(place, have - 1), *i[at + 1 :])
        fresh = data(*i[:at], tir.max(place - have, 0), *i[at + 1 :])
        return tir.Select(place < have, old, fresh)

    return compute(buffer.shape, element, name="fifo_buffer", tag=tag.INJECTIVE)
