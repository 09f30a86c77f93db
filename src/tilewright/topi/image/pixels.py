"""Parts of computes on images in several layouts, as classic programs write resizes of their own with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.image.resize import source_place
from tilewright.topi.index_utils import nchw_pack_layout, ncw_pack_layout
from tilewright.topi.lang import tir
from tilewright.topi.utils import as_int, to


def _places(indices: Sequence[Any], layout: str, letters: str) -> dict[str, Any]:
    """An index by the letters of its axes: N, C, spatial ones, c (in a block of channels), and for packed layouts b and i (in blocks of
    images and of channels). Axes that a layout lacks have index 0."""
    channels_last, first = f"N{letters}C", f"NC{letters}"
    packed = nchw_pack_layout(layout) if len(letters) == 2 else ncw_pack_layout(layout)
    axes = channels_last if layout == channels_last else first if layout == first else first + ("bi" if packed else "c")
    return {**dict.fromkeys("cbi", 0), **dict(zip(axes, indices, strict=True))}


def get_1d_indices(indices: Sequence[Any], layout: str = "NCW") -> tuple[Any, ...]:
    """(n, c, x, place in a block of channels, in a packed block of images, in a packed block of channels) of an index."""
    at = _places(indices, layout, "W")
    return at["N"], at["C"], at["W"], at["c"], at["b"], at["i"]


def get_2d_indices(indices: Sequence[Any], layout: str = "NCHW") -> tuple[Any, ...]:
    """(n, c, y, x, place in a block of channels, in a packed block of images, in a packed block of channels) of an index."""
    at = _places(indices, layout, "HW")
    return at["N"], at["C"], at["H"], at["W"], at["c"], at["b"], at["i"]


def get_3d_indices(indices: Sequence[Any], layout: str = "NCDHW") -> tuple[Any, ...]:
    """(n, c, z, y, x, place in a block of channels) of an index."""
    at = _places(indices, layout, "DHW")
    return at["N"], at["C"], at["D"], at["H"], at["W"], at["c"]


def _pixel(
    data: te.Tensor, layout: str, letters: str, n: Any, c: Any, spatial: Sequence[tuple[Any, Any]], rest: Sequence[Any]
) -> Any:
    places = [tir.max(tir.min(p, extent - 1), 0) for p, extent in spatial]
    if layout == f"N{letters}C":
        index = [n, *places, c]
    elif layout == f"NC{letters}":
        index = [n, c, *places]
    else:
        packed = nchw_pack_layout(layout) if len(letters) == 2 else ncw_pack_layout(layout)
        index = [n, c, *places, *(rest[1:] if packed else rest[:1])]
    return to(data(*index), "float32")


def get_1d_pixel(
    data: te.Tensor, layout: str, image_width: Any, n: Any, c: Any, x: Any, cc: Any, ib: Any, ic: Any
) -> Any:
    """An element of rows as float32; places beyond the edge are those at the edge."""
    return _pixel(data, layout, "W", n, c, [(x, image_width)], (cc, ib, ic))


def get_2d_pixel(
    data: te.Tensor,
    layout: str,
    image_height: Any,
    image_width: Any,
    n: Any,
    c: Any,
    y: Any,
    x: Any,
    cc: Any,
    ib: Any,
    ic: Any,
) -> Any:
    """An element of images as float32; places beyond the edge are those at the edge."""
    return _pixel(data, layout, "HW", n, c, [(y, image_height), (x, image_width)], (cc, ib, ic))


def get_3d_pixel(
    data: te.Tensor,
    layout: str,
    image_depth: Any,
    image_height: Any,
    image_width: Any,
    n: Any,
    c: Any,
    z: Any,
    y: Any,
    x: Any,
    cc: Any,
) -> Any:
    """An element of volumes as float32; places beyond the edge are those at the edge."""
    spatial = [(z, image_depth), (y, image_height), (x, image_width)]
    return _pixel(data, layout, "DHW", n, c, spatial, (cc,))


def get_inx(
    x: Any,
    image_width: Any,
    target_width: Any,
    coordinate_transformation_mode: str,
    start_x: float = 0,
    end_x: float = -1,
    use_int_div: bool = False,
) -> Any:
    """The position in an image along an axis that place x of the resized one is computed of (float32). start_x, end_x: the part of the
    image for tf_crop_and_resize. use_int_div: by a division of integers, for asymmetric coordinates and sizes that divide each other."""
    if use_int_div and coordinate_transformation_mode == "asymmetric":
        return tir.floordiv(x, as_int(target_width) // as_int(image_width))
    end = 1.0 if end_x == -1 else end_x
    extents = as_int(image_width), as_int(target_width)
    return source_place(x, *extents, coordinate_transformation_mode, float(start_x), float(end))


def get_closest_index(in_x: Any, rounding_method: str, boxes: Any, use_int_div: bool = False) -> Any:
    """The place nearest to a position, by the rounding method; `boxes`: of crops, which round halves away."""
    if use_int_div:
        return in_x
    half, little = tir.const(0.5, "float32"), tir.const(1e-5, "float32")
    if rounding_method == "round" or boxes is not None:
        found = tir.round(in_x)
    elif rounding_method == "round_prefer_floor":
        found = tir.ceil(in_x - half)
    elif rounding_method == "round_prefer_ceil":
        found = tir.floor(in_x + half)
    elif rounding_method == "floor":
        # Positions may be a little less than the integer that they stand for.
        found = tir.floor(in_x + little)
    elif rounding_method == "ceil":
        found = tir.ceil(in_x - little)
    else:
        raise ValueError(
            "rounding_method must be round, round_prefer_floor, round_prefer_ceil, floor or ceil, but is"
            f" {rounding_method!r}"
        )
    return to(found, "int32")


def can_convert_multiply_to_intdiv(origin_size: Any, scaled_size: Any) -> bool:
    """Whether a size is a multiple of another one, both of which are known."""
    before, after = as_int(origin_size), as_int(scaled_size)
    return isinstance(before, int) and isinstance(after, int) and before > 0 and after % before == 0
