"""Anchors, and boxes predicted relative to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import local, loop_kind, program
from tilewright.topi.sort import argsort
from tilewright.topi.utils import as_int, get_const_int, shape_of, to
from tilewright.topi.vision.nms import non_max_suppression, overlap

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def multibox_prior(
    data: te.Tensor,
    sizes: Sequence[float] = (1,),
    ratios: Sequence[float] = (1,),
    steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> te.Tensor:
    """Anchor boxes (x, y, x, y, as fractions of the image) around each element of data (N, C, H, W): each size with the first
    ratio, and the first size with each other ratio: (1, H * W * boxes, 4)."""
    _, _, height, width = shape_of(data)
    h, w = get_const_int(height), get_const_int(width)
    steps_h, steps_w = steps[0] if steps[0] > 0 else 1.0 / h, steps[1] if steps[1] > 0 else 1.0 / w
    halves = [(s * h / w / 2, s / 2) for s in sizes]
    halves += [(sizes[0] * h / w * math.sqrt(r) / 2, sizes[0] / math.sqrt(r) / 2) for r in ratios[1:]]
    count = len(halves)
    dtype = data.dtype

    def c(v: float) -> Any:
        return tir.const(v, dtype)

    def element(_: Var, k: Var, corner: Var) -> Any:
        place, kind = tir.floordiv(k, count), tir.floormod(k, count)
        y, x = tir.floordiv(place, w), tir.floormod(place, w)
        half_w, half_h = c(halves[-1][0]), c(halves[-1][1])
        for i in range(count - 2, -1, -1):
            half_w = tir.Select(tir.EQ(kind, tir.const(i, kind.dtype)), c(halves[i][0]), half_w)
            half_h = tir.Select(tir.EQ(kind, tir.const(i, kind.dtype)), c(halves[i][1]), half_h)
        cx, cy = (to(x, dtype) + c(offsets[1])) * c(steps_w), (to(y, dtype) + c(offsets[0])) * c(steps_h)
        horizontal = tir.floormod(corner, 2) <= 0
        centre, half = tir.Select(horizontal, cx, cy), tir.Select(horizontal, half_w, half_h)
        found = tir.Select(corner < 2, centre - half, centre + half)
        return tir.max(tir.min(found, c(1)), c(0)) if clip else found

    return compute([1, h * w * count, 4], element, name="multibox_prior", tag=tag.INJECTIVE)


def multibox_transform_loc(
    cls_prob: te.Tensor,
    loc_pred: te.Tensor,
    anchor: te.Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> list[te.Tensor]:
    """[(batch, anchors, 6) rows (class, score, x, y, x, y), their number (batch,)]: the anchors whose best class, other than the
    background 0, has at least the score `threshold`. The remaining rows are -1.

    cls_prob: (batch, classes, anchors). loc_pred: (batch, anchors * 4). anchor: (1, anchors, 4). keep_background: treat class 0
    like the others.
    """
    start = 0 if keep_background else 1
    batch, classes, count = shape_of(cls_prob)
    dtype = cls_prob.dtype

    def body(
        ib: IRBuilder, prob: BufferVar, loc: BufferVar, anchors: BufferVar, out: BufferVar, valid: BufferVar
    ) -> None:
        with ib.for_range(0, batch, "b", kind=loop_kind(batch, classes, count)) as b:
            found = local(ib, "int32", 0, "found")
            with ib.for_range(0, count, "k") as k:
                score, kind = local(ib, dtype, -1, "score"), local(ib, "int32", start - 1, "kind")
                with ib.for_range(start, classes, "c") as c, ib.if_scope(prob[b, c, k] > score[0]):
                    score[0] = prob[b, c, k]
                    kind[0] = to(c, "int32")
                with ib.if_scope(tir.And(kind[0] >= start, score[0] >= tir.const(threshold, dtype))):
                    row = found[0]
                    out[b, row, 0] = to(kind[0] - start, dtype)
                    out[b, row, 1] = score[0]
                    for axis in range(2):
                        low, high = anchors[0, k, axis], anchors[0, k, axis + 2]
                        extent, two = high - low, tir.const(2, dtype)
                        shift = loc[b, k * 4 + axis] * tir.const(variances[axis], dtype)
                        centre = shift * extent + (low + high) / two
                        grown = tir.exp(loc[b, k * 4 + 2 + axis] * tir.const(variances[2 + axis], dtype))
                        half = grown * extent / two
                        for sign, place in ((-1, 2 + axis), (1, 4 + axis)):
                            value = centre + half * tir.const(sign, dtype)
                            if clip:
                                value = tir.max(tir.min(value, tir.const(1, dtype)), tir.const(0, dtype))
                            out[b, row, place] = value
                    found[0] = row + 1
            valid[b] = found[0]
            with ib.for_range(to(found[0], "int64"), to(count, "int64"), "k") as k, ib.for_range(0, 6, "e") as e:
                out[b, k, e] = tir.const(-1, dtype)

    return program(
        [[batch, count, 6], [batch]], [dtype, "int32"], [cls_prob, loc_pred, anchor], body, "multibox_transform_loc"
    )


def reorg(data: te.Tensor, stride: int) -> te.Tensor:
    """Darknet's reorg: reads data (N, C, H, W) as (N, C / s^2, H * s, W * s), where s is `stride`, and turns its blocks of s x s
    elements into channels: (N, C * s^2, H / s, W / s)."""
    from tilewright.topi.transform import reshape

    n, channels, h, w = shape_of(data)
    s = stride
    few = as_int(channels // (s * s))
    wide = reshape(data, [n, few, as_int(h * s), as_int(w * s)])

    def element(b: Var, k: Var, y: Var, x: Var) -> Any:
        block = tir.floordiv(k, few)
        return wide(b, tir.floormod(k, few), y * s + tir.floordiv(block, s), x * s + tir.floormod(block, s))

    apart = compute([n, channels, h, w], element, name="reorg", tag=tag.INJECTIVE)
    return reshape(apart, [n, as_int(channels * s * s), as_int(h // s), as_int(w // s)])


def base_anchors(
    stride: float, scales: Sequence[float], ratios: Sequence[float]
) -> list[tuple[float, float, float, float]]:
    """The anchors around element (0, 0), as in Faster R-CNN: one for each pair of ratio and scale."""
    return [generate_anchor(ratio, scale, stride) for ratio in ratios for scale in scales]


def generate_anchor(ratio: float, scale: float, base_size: float) -> tuple[float, float, float, float]:
    """The corners (x, y, x, y) of an anchor of a ratio of height to width, `scale` times as large as an element of base_size squared."""
    centre = (base_size - 1) * 0.5
    side = math.floor(base_size * base_size / ratio)
    w0 = math.floor(math.sqrt(side) + 0.5)
    h0 = math.floor(w0 * ratio + 0.5)
    half_w, half_h = (w0 * scale - 1) * 0.5, (h0 * scale - 1) * 0.5
    return centre - half_w, centre - half_h, centre + half_w, centre + half_h


def reg_bbox(x1: Any, y1: Any, x2: Any, y2: Any, dx: Any, dy: Any, dw: Any, dh: Any) -> tuple[Any, Any, Any, Any]:
    """The corners of a box that is moved by dx and dy of its width and height, and grown by the exponentials of dw and dh."""
    one, half = tir.const(1, x1.dtype), tir.const(0.5, x1.dtype)
    width, height = x2 - x1 + one, y2 - y1 + one
    cx, cy = x1 + half * (width - one) + dx * width, y1 + half * (height - one) + dy * height
    half_w, half_h = half * (tir.exp(dw) * width - one), half * (tir.exp(dh) * height - one)
    return cx - half_w, cy - half_h, cx + half_w, cy + half_h


def reg_iou(x1: Any, y1: Any, x2: Any, y2: Any, dx1: Any, dy1: Any, dx2: Any, dy2: Any) -> tuple[Any, Any, Any, Any]:
    """The corners of a box, each moved by its own distance."""
    return x1 + dx1, y1 + dy1, x2 + dx2, y2 + dy2


def multibox_detection(
    cls_prob: te.Tensor,
    loc_pred: te.Tensor,
    anchor: te.Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> te.Tensor:
    """Boxes (batch, anchors, 6) of a single-shot detector, after suppression of those that overlap better ones."""
    boxes, count = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances)
    kept = non_max_suppression(boxes, count, count, -1, nms_threshold, force_suppress, nms_topk, 2, 1, 0, False, False)
    assert isinstance(kept, te.Tensor)
    return kept


def proposal(
    cls_prob: te.Tensor,
    bbox_pred: te.Tensor,
    im_info: te.Tensor,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> te.Tensor:
    """Proposed regions (batch * rpn_post_nms_top_n, 5): rows (image, x, y, x, y).

    Arguments: scores (N, 2 * anchors, H, W), predicted offsets (N, 4 * anchors, H, W), im_info (N, 3): height, width, scale. If
    there are too few regions, they are repeated.
    """
    batch, _, h, w = shape_of(cls_prob)
    anchors = base_anchors(feature_stride, scales, ratios)
    kinds = len(anchors)
    total = as_int(h * w * kinds)
    dtype = bbox_pred.dtype

    def c(v: float) -> Any:
        return tir.const(v, dtype)

    def place(k: Var) -> tuple[Any, Any, Any]:
        kind, cell = tir.floormod(k, kinds), tir.floordiv(k, kinds)
        return kind, tir.floordiv(cell, w), tir.floormod(cell, w)

    def box(b: Var, k: Var, e: Var) -> PrimExpr:
        kind, y, x = place(k)
        corners = [c(v) for v in anchors[-1]]
        for i in range(kinds - 2, -1, -1):
            corners = [
                tir.Select(tir.EQ(kind, tir.const(i, kind.dtype)), c(v), old)
                for v, old in zip(anchors[i], corners, strict=True)
            ]
        shift = [to(x, dtype) * c(feature_stride), to(y, dtype) * c(feature_stride)]
        x0, y0, x1, y1 = [v + shift[i % 2] for i, v in enumerate(corners)]
        dx, dy, dw, dh = [bbox_pred(b, kind * 4 + i, y, x) for i in range(4)]
        moved = (reg_iou if iou_loss else reg_bbox)(x0, y0, x1, y1, dx, dy, dw, dh)
        limits = [im_info(b, 1) - c(1), im_info(b, 0) - c(1)]
        found = [tir.max(tir.min(v, limits[i % 2]), c(0)) for i, v in enumerate(moved)]
        least = im_info(b, 2) * c(rpn_min_size)
        small = tir.Or(found[2] - found[0] + c(1) < least, found[3] - found[1] + c(1) < least)
        score = tir.Select(small, c(-1), cls_prob(b, kinds + kind, y, x))
        value = score
        for i in range(3, -1, -1):
            value = tir.Select(tir.EQ(e, tir.const(i, e.dtype)), found[i], value)
        return value

    boxes: te.Tensor = compute([batch, total, 5], box, name="predict", tag=tag.INJECTIVE)
    scores: te.Tensor = compute([batch, total], lambda b, k: boxes(b, k, 4), name="scores", tag=tag.INJECTIVE)
    order = argsort(scores, None, 1, False, "int32")
    before, after = rpn_pre_nms_top_n, rpn_post_nms_top_n

    def body(ib: IRBuilder, x: BufferVar, rank: BufferVar, out: BufferVar, kept: BufferVar) -> None:
        most = tir.min(to(total, "int32"), before) if before > 0 else to(total, "int32")
        with ib.for_range(0, batch, "b", kind=loop_kind(batch, total, after)) as b:
            found = local(ib, "int32", 0, "found")
            with ib.for_range(0, most, "i") as i:
                mine = ib.let("mine", rank[b, i])
                good = local(ib, "int32", to(found[0] < after, "int32"), "good")
                with ib.for_range(0, found[0], "j") as j, ib.if_scope(good[0] > 0):
                    other = ib.let("other", kept[b, j])
                    iou = _inclusive_overlap(x, b, mine, other, dtype)
                    with ib.if_scope(iou > c(threshold)):
                        good[0] = tir.const(0, "int32")
                with ib.if_scope(good[0] > 0):
                    kept[b, found[0]] = mine
                    found[0] = found[0] + 1
            with ib.for_range(0, after, "r") as r:
                chosen = kept[b, tir.floormod(to(r, "int32"), tir.max(found[0], 1))]
                row = b * after + r
                out[row, 0] = to(b, dtype)
                for e in range(4):
                    out[row, e + 1] = x[b, chosen, e]

    rows = as_int(batch * after)
    return program([[rows, 5]], [dtype], [boxes, order], body, "proposal", [([batch, after], "int32")])[0]


def _inclusive_overlap(x: BufferVar, b: Var, mine: Var, other: Var, dtype: str) -> PrimExpr:
    """The intersection over union of boxes whose corners are elements that belong to the box."""
    one = tir.const(1, dtype)
    return overlap(
        lambda k: x[b, mine, k] + (one if k > 1 else tir.const(0, dtype)),
        lambda k: x[b, other, k] + (one if k > 1 else tir.const(0, dtype)),
        dtype,
    )
