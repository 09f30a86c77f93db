"""Resize with dynamic extents, sizes or scales: image.resize if it is equivalent, else positions and weights computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.relay.cards.relations import is_any, known_equal, simplest
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value as CommonValue
from tilewright.relay.frontend.onnx.value import OnnxNode, Value

METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
PLAIN = {
    "half_pixel": "half_pixel", "pytorch_half_pixel": "pytorch_half_pixel", "align_corners": "align_corners",
    "asymmetric": "asymmetric", "half_pixel_symmetric": "half_pixel", "tf_half_pixel_for_nn": "tf_half_pixel_for_nn",
    "tf_crop_and_resize": "tf_crop_and_resize",
}  # fmt: skip
"""The name of a mode in image.resize, if the scale is the ratio of the extents."""


REACH = {"linear": 1, "cubic": 2}
"""The number of elements on each side of a position that a filter reads."""


class Axis:
    """An axis to resample. extent and target: a number, a symbol, or a tensor without axes; scale: a number, such a tensor, or None
    for target / extent; start and end: the part of the input to sample, as fractions of the extent."""

    __slots__ = ("end", "extent", "number", "scale", "start", "target")

    def __init__(self, number: int, extent: Any, target: Any, scale: Any, part: tuple[float, float]) -> None:
        self.number, self.extent, self.target, self.scale = number, extent, target, scale
        self.start, self.end = part

    @property
    def exact(self) -> bool:
        """Whether the scale is certainly target / extent."""
        return self.scale is None or isinstance(self.scale, float) and self.scale == int(self.scale)


def resized(node: OnnxNode, x: Value, given: Value, to_sizes: bool, roi: Sequence[float] | None, mode: str) -> Any:
    """x resampled to the given sizes or by the given scales. Some of them are known only at run time."""
    c = node.builder
    shape = x.shape
    axes = node.places(node.get("axes") or range(len(shape)), len(shape))
    crop = mode == "tf_crop_and_resize"
    if crop and roi is None:
        raise ValueError("tf_crop_and_resize needs the input roi")
    parts = [(roi[k], roi[k + len(axes)]) if crop and roi else (0.0, 1.0) for k in range(len(axes))]
    extents = [c.extent(x, a) if is_any(shape[a]) else shape[a] for a in axes]
    numbers = c.elements(given, len(axes))
    if to_sizes:
        goals = kept_ratio(c, node.get("keep_aspect_ratio_policy", "stretch"), extents, numbers)
    else:
        goals = [(scaled(c, e, s), s) for e, s in zip(extents, numbers, strict=True)]
    changed = [
        Axis(a, e, t, s, part)
        for a, e, (t, s), part in zip(axes, extents, goals, parts, strict=True)
        if not (same_size(e, t) and (s is None or s == 1.0) and part == (0.0, 1.0))
    ]
    if not changed:
        return x
    nearest = node.get("mode", "nearest") == "nearest"
    antialias = bool(node.get("antialias", 0)) and not nearest
    # image.resize would crop with TensorFlow's order of operations, which would change the nearest element.
    same = not antialias and all([not nearest if crop else axis.exact for axis in changed])
    if same and 3 <= len(shape) <= 5 and min([axis.number for axis in changed]) >= 2:
        made = _image(node, c, x, changed, mode)
        if made is not None:
            return made
    out: Any = x
    outside: Any = None
    for axis in changed:
        places = _places(c, axis, mode)
        out = _along(node, c, out, axis, places, antialias)
        if crop:
            last = c.call("subtract", _real(c, axis.extent), 1.0)
            beyond = c.call("logical_or", c.call("less", places, 0.0), c.call("greater", places, last))
            beyond = _spread(c, beyond, len(shape) - 1 - axis.number)
            outside = beyond if outside is None else c.call("logical_or", outside, beyond)
    if outside is not None:
        out = c.call("where", outside, c.number(node.get("extrapolation_value", 0.0), x.dtype), out)
    return out.expr


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are certainly equal."""
    return known(a) and known(b) and known_equal(a, b)


def known(d: Any) -> bool:
    """Whether a size is a number or a symbol."""
    return isinstance(d, (int, np.integer, PrimExpr)) and not isinstance(d, CommonValue)


def scaled(c: Builder, extent: Any, scale: Any) -> Any:
    """The extent after scaling, rounded down."""
    if isinstance(scale, CommonValue):
        found = c.call("add", c.call("multiply", _real(c, extent), c.cast(scale, "float32")), 1e-6)
        return c.cast(c.call("floor", found), "int64")
    if isinstance(extent, int):
        return int(np.floor(extent * np.float32(scale) + 1e-6))
    ratio = Fraction(scale).limit_denominator(1 << 12)
    if np.float32(ratio.numerator / ratio.denominator) != np.float32(scale):
        ratio = Fraction(float(np.float32(scale)))
    if isinstance(extent, PrimExpr):
        return simplest(extent * ratio.numerator // ratio.denominator)
    return c.call("floor_divide", c.call("multiply", extent, ratio.numerator), ratio.denominator)


def kept_ratio(c: Builder, policy: str, extents: Sequence[Any], sizes: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(target, scale) of each axis: the given sizes, or one scale for all axes with sizes rounded half up."""
    if policy == "stretch":
        return [(c.cast(s, "int64") if isinstance(s, CommonValue) else s, None) for s in sizes]
    ratios = [c.call("divide", _real(c, s), _real(c, e)) for s, e in zip(sizes, extents, strict=True)]
    kept = ratios[0]
    for r in ratios[1:]:
        kept = c.call("minimum" if policy == "not_larger" else "maximum", kept, r)
    whole = [c.call("floor", c.call("add", c.call("multiply", kept, _real(c, e)), 0.5)) for e in extents]
    return [(c.cast(w, "int64"), kept) for w in whole]


def _image(node: OnnxNode, c: Builder, x: Value, changed: Sequence[Axis], mode: str) -> Expr | None:
    """The equivalent call of image.resize; None if it has none."""
    rank = x.ndim - 2
    spatial = [next((a for a in changed if a.number == k + 2), None) for k in range(rank)]
    extents = [c.extent(x, k + 2) if is_any(x.shape[k + 2]) else x.shape[k + 2] for k in range(rank)]
    targets = [e if a is None else a.target for a, e in zip(spatial, extents, strict=True)]
    method = METHODS[node.get("mode", "nearest")]
    attrs = {
        "method": method, "coordinate_transformation_mode": PLAIN[mode],
        "rounding_method": node.get("nearest_mode", "round_prefer_floor") if method == "nearest_neighbor" else "",
        "cubic_alpha": node.get("cubic_coeff_a", -0.75), "cubic_exclude": node.get("exclude_outside", 0),
        "extrapolation_value": node.get("extrapolation_value", 0.0),
    }  # fmt: skip
    roi = None
    if mode == "tf_crop_and_resize":
        roi = tuple([a.start if a else 0.0 for a in spatial] + [a.end if a else 1.0 for a in spatial])
    if all(map(known, targets)):
        return node.call(f"image.resize{rank}d", x, size=tuple(targets), roi=roi, **attrs)
    if rank != 2:
        return None
    size = c.call("stack", [c.size(t) if known(t) else t for t in targets], axis=0)
    more = [] if roi is None else [Value(array=np.array(roi, np.float32))]
    return node.call("dyn.image.resize2d", x, Value(size.expr), *more, **attrs)


def _real(c: Builder, d: Any) -> CommonValue:
    """A size as a float32 without axes."""
    return c.cast(d if isinstance(d, CommonValue) else c.size(d), "float32")


def _spread(c: Builder, vector: CommonValue, behind: int) -> CommonValue:
    """A vector with axes of extent 1 appended."""
    return c.call("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


def _places(c: Builder, axis: Axis, mode: str) -> Any:
    """The position of each output element in the input, in float32."""
    t = axis.target
    at = (
        c.call("arange", start=0, stop=t, step=1, dtype="float32")
        if known(t)
        else c.call("dyn.iota", t, dtype="float32")
    )
    extent, target = _real(c, axis.extent), _real(c, t)
    several = c.call("greater", target, 1.0)
    last = c.call("subtract", extent, 1.0)
    scale = c.call("divide", target, extent)
    if axis.scale is not None:
        scale = axis.scale if isinstance(axis.scale, CommonValue) else c.number(axis.scale, "float32")
        scale = c.cast(scale, "float32")

    def unscaled(v: CommonValue) -> Any:
        # Products of integers and halves are exact, so exact midpoints between two elements are found.
        return (
            c.call("divide", c.call("multiply", v, extent), target)
            if axis.scale is None
            else c.call("divide", v, scale)
        )

    if mode == "tf_crop_and_resize":
        start, end = np.float32(axis.start), np.float32(axis.end)
        spread = c.call("multiply", c.call("multiply", at, float(end - start)), last)
        along = c.call("divide", spread, c.call("maximum", c.call("subtract", target, 1.0), 1.0))
        middle = c.call("multiply", last, float(np.float32(0.5) * (start + end)))
        return c.call("where", several, c.call("add", c.call("multiply", last, float(start)), along), middle)
    if mode == "align_corners":
        length = target
        if axis.scale is not None:
            # The requested size may not be an integer.
            asked = c.call("multiply", scale, extent)
            off = c.call("abs", c.call("subtract", asked, target))
            length = c.call("where", c.call("greater", off, c.call("multiply", target, 1e-4)), asked, target)
        step = c.call("divide", last, c.call("maximum", c.call("subtract", length, 1.0), 1e-9))
        return c.call("multiply", at, c.call("where", several, step, 0.0))
    if mode == "asymmetric":
        return unscaled(at)
    middles = unscaled(c.call("add", at, 0.5))
    if mode == "tf_half_pixel_for_nn":
        return middles
    if mode == "half_pixel_symmetric":
        adjustment = c.call("divide", target, c.call("multiply", scale, extent))
        margin = c.call("multiply", c.call("multiply", extent, 0.5), c.call("subtract", 1.0, adjustment))
        middles = c.call("add", middles, margin)
    places = c.call("subtract", middles, 0.5)
    return c.call("multiply", places, c.cast(several, "float32")) if mode == "pytorch_half_pixel" else places


def _along(node: OnnxNode, c: Builder, x: Any, axis: Axis, places: CommonValue, antialias: bool) -> Any:
    """x resampled along one axis: the nearest element, or a weighted sum of the elements around each position."""
    last = c.cast(c.call("subtract", _real(c, axis.extent), 1.0), "int32")

    def picked(index: CommonValue) -> CommonValue:
        inside = c.call("minimum", c.call("maximum", c.cast(index, "int32"), 0), last)
        return c.call("take", x, inside, axis=axis.number)

    method = node.get("mode", "nearest")
    if method == "nearest":
        return picked(_rounded(c, places, node.get("nearest_mode", "round_prefer_floor")))
    alpha = node.get("cubic_coeff_a", -0.75)
    if antialias and not isinstance(axis.scale, float):
        return _filtered(node, c, x, axis, places, alpha)
    stretch = max(1.0, 1 / axis.scale) if antialias else 1.0
    first = c.call("floor", places)
    reach = int(np.ceil(REACH[method] * stretch))
    neighbours = []
    for k in range(1 - reach, reach + 1):
        index = c.call("add", first, float(k))
        neighbours.append(
            (index, _weight(c, c.call("divide", c.call("subtract", index, places), stretch), method, alpha))
        )
    if stretch > 1:
        neighbours = _normalised(c, neighbours)
    if node.get("exclude_outside", 0):
        neighbours = _normalised(c, [(i, _inside(c, axis, i, w)) for i, w in neighbours])
    behind = x.ndim - 1 - axis.number
    out: Any = None
    for index, weight in neighbours:
        term = c.call("multiply", picked(index), c.cast(_spread(c, weight, behind), x.dtype))
        out = term if out is None else c.call("add", out, term)
    return out


def _inside(c: Builder, axis: Axis, index: CommonValue, weight: CommonValue) -> CommonValue:
    """The weights of elements in the input; 0 for others."""
    found = c.call("logical_and", c.call("greater_equal", index, 0.0), c.call("less", index, _real(c, axis.extent)))
    return c.call("where", found, weight, 0.0)


def _filtered(node: OnnxNode, c: Builder, x: Any, axis: Axis, places: CommonValue, alpha: float) -> CommonValue:
    """x along an axis, filtered with a width that is computed at run time: a product of the axis, extended by copies of its ends, with
    the weights of all its elements at each position."""
    method, extent = node.get("mode"), _real(c, axis.extent)
    step = c.call("divide", extent, _real(c, axis.target)) if axis.scale is None else c.call("divide", 1.0, axis.scale)
    stretch = c.call("maximum", step, 1.0)
    reach = c.call("add", c.call("ceil", c.call("multiply", stretch, float(REACH[method]))), 1.0)
    count = c.cast(c.call("add", extent, c.call("multiply", reach, 2.0)), "int64")
    index = c.call("subtract", c.call("dyn.iota", count, dtype="float32"), reach)
    distance = c.call("divide", c.call("subtract", index, _spread(c, places, 1)), stretch)
    weights = _weight(c, distance, method, alpha)
    weights = c.call("divide", weights, c.reduce("sum", weights, [1], keepdims=True))
    if node.get("exclude_outside", 0):
        weights = _inside(c, axis, index, weights)
        weights = c.call("divide", weights, c.reduce("sum", weights, [1], keepdims=True))
    within = c.call("maximum", c.call("minimum", index, c.call("subtract", extent, 1.0)), 0.0)
    order = [k for k in range(x.ndim) if k != axis.number] + [axis.number]
    longer = c.transpose(c.call("take", x, c.cast(within, "int32"), axis=axis.number), order)
    out = c.call("nn.dense", longer, c.cast(weights, x.dtype))
    return c.transpose(out, [order.index(k) for k in range(x.ndim)])


def _normalised(
    c: Builder, neighbours: Sequence[tuple[CommonValue, CommonValue]]
) -> list[tuple[CommonValue, CommonValue]]:
    """Weights divided by their sum at each position."""
    total = neighbours[0][1]
    for _, w in neighbours[1:]:
        total = c.call("add", total, w)
    return [(i, c.call("divide", w, total)) for i, w in neighbours]


def _rounded(c: Builder, x: CommonValue, rounding: str) -> CommonValue:
    if rounding in ("floor", "ceil"):
        return c.call(rounding, x)
    if rounding == "round_prefer_ceil":
        return c.call("floor", c.call("add", x, 0.5))
    return c.call("ceil", c.call("subtract", x, 0.5))


def _weight(c: Builder, distance: CommonValue, method: str, alpha: float) -> CommonValue:
    """The weight of an element at a distance (linear: a triangle; cubic: Keys' kernel)."""
    d = c.call("abs", distance)
    if method == "linear":
        return c.call("maximum", c.call("subtract", 1.0, d), 0.0)

    def polynomial(*factors: float) -> Any:
        total: Any = c.number(factors[0], "float32")
        for f in factors[1:]:
            total = c.call("add", c.call("multiply", total, d), f)
        return total

    near = polynomial(alpha + 2, -(alpha + 3), 0.0, 1.0)
    far = polynomial(alpha, -5 * alpha, 8 * alpha, -4 * alpha)
    beyond = c.call("where", c.call("less", d, 2.0), far, 0.0)
    return c.call("where", c.call("less_equal", d, 1.0), near, beyond)
