"""Non-maximum suppression: in the order of scores, each box removes the boxes that overlap it too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import local, loop_kind, program
from tilewright.topi.sort import argsort
from tilewright.topi.utils import as_int, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def get_valid_counts(
    data: te.Tensor, score_threshold: Any = 0.0, id_index: int = 0, score_index: int = 1
) -> list[te.Tensor]:
    """[the number of boxes in each batch with a score above the threshold (and, unless id_index is negative, a class of at least
    0), these boxes at the front, their positions]. The remaining entries are -1. data: (batch, boxes, elements)."""
    batch, boxes, elements = shape_of(data)
    given = [score_threshold] if isinstance(score_threshold, te.Tensor) else []

    def body(ib: IRBuilder, x: BufferVar, *rest: BufferVar) -> None:
        count, out, places = rest[-3:]
        limit = _scalar(rest[0]) if given else tir.const(score_threshold, data.dtype)
        with ib.for_range(0, batch, "b", kind=loop_kind(batch, boxes, elements)) as b:
            found = local(ib, "int32", 0, "found")
            with ib.for_range(0, boxes, "k") as k:
                good = x[b, k, score_index] > limit
                if id_index >= 0:
                    good = tir.And(good, x[b, k, id_index] >= tir.const(0, data.dtype))
                with ib.if_scope(good):
                    with ib.for_range(0, elements, "e") as e:
                        out[b, found[0], e] = x[b, k, e]
                    places[b, found[0]] = to(k, "int32")
                    found[0] = found[0] + 1
            count[b] = found[0]
            with ib.for_range(to(found[0], "int64"), to(boxes, "int64"), "k") as k:
                with ib.for_range(0, elements, "e") as e:
                    out[b, k, e] = tir.const(-1, data.dtype)
                places[b, k] = tir.const(-1, "int32")

    return program(
        [[batch], [batch, boxes, elements], [batch, boxes]],
        ["int32", data.dtype, "int32"],
        [data, *given],
        body,
        "get_valid_counts",
    )


def _scalar(buffer: BufferVar) -> PrimExpr:
    return buffer[()] if not buffer._buffer.shape else buffer[0]


def overlap(a: Callable[[int], Any], b: Callable[[int], Any], dtype: str) -> PrimExpr:
    """The intersection over union of two boxes, each given by two opposite corners (x, y, x, y) in any order."""
    zero = tir.const(0, dtype)
    low_a, high_a = [tir.min(a(k), a(k + 2)) for k in range(2)], [tir.max(a(k), a(k + 2)) for k in range(2)]
    low_b, high_b = [tir.min(b(k), b(k + 2)) for k in range(2)], [tir.max(b(k), b(k + 2)) for k in range(2)]
    sides = [
        tir.max(zero, tir.min(ha, hb) - tir.max(la, lb))
        for la, ha, lb, hb in zip(low_a, high_a, low_b, high_b, strict=True)
    ]
    both = sides[0] * sides[1]
    areas = [(h[0] - low[0]) * (h[1] - low[1]) for low, h in ((low_a, high_a), (low_b, high_b))]
    union = areas[0] + areas[1] - both
    return tir.Select(union <= zero, zero, both / tir.max(union, tir.const(1e-12, dtype)))


def non_max_suppression(
    data: te.Tensor,
    valid_count: te.Tensor,
    indices: te.Tensor,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> te.Tensor | list[te.Tensor]:
    """The boxes of each batch, best first, without those that overlap a better box of their class by `iou_threshold` or more.

    data: (batch, boxes, elements). valid_count: (batch,). indices: (batch, boxes), the positions to return. With `return_indices`:
    [the positions of the boxes that remain, then -1; their number (batch, 1)]. Otherwise the boxes, with -1 for each removed one;
    `invalid_to_bottom` moves the removed ones to the end. max_output_size, iou_threshold: numbers or scalar tensors.
    """
    batch, boxes, elements = shape_of(data)
    scores: te.Tensor = te.compute((batch, boxes), lambda b, k: data(b, k, score_index), name="scores", tag="injective")
    order = argsort(scores, valid_count, 1, False, "int32")
    scalars = [v for v in (max_output_size, iou_threshold) if isinstance(v, te.Tensor)]

    def body(
        ib: IRBuilder, x: BufferVar, valid: BufferVar, index: BufferVar, rank: BufferVar, *rest: BufferVar
    ) -> None:
        given = list(rest[: len(scalars)])
        most = (
            to(_scalar(given.pop(0)), "int32")
            if isinstance(max_output_size, te.Tensor)
            else tir.const(max_output_size, "int32")
        )
        limit = (
            to(_scalar(given.pop(0)), data.dtype)
            if isinstance(iou_threshold, te.Tensor)
            else tir.const(iou_threshold, data.dtype)
        )
        outs = rest[len(scalars) :]
        alive = outs[-1]
        with ib.for_range(0, batch, "b", kind=loop_kind(batch, boxes, boxes)) as b:
            count = tir.min(valid[b], to(boxes, "int32"))
            if top_k > 0:
                count = tir.min(count, tir.const(top_k, "int32"))
            number = ib.let("number", count)
            kept = local(ib, "int32", 0, "kept")
            with ib.for_range(0, boxes, "k") as k:
                sure = to(k, "int32") < number
                if id_index >= 0:
                    sure = tir.And(sure, x[b, rank[b, k], id_index] >= tir.const(0, data.dtype))
                alive[b, k] = to(sure, "int32")
            with ib.for_range(0, number, "i") as i:
                with ib.if_scope(tir.And(alive[b, i] > 0, tir.Or(most < 0, kept[0] < most))):
                    kept[0] = kept[0] + 1
                    mine = ib.let("mine", rank[b, i])
                    with ib.for_range(i + 1, number, "j") as j, ib.if_scope(alive[b, j] > 0):
                        other = ib.let("other", rank[b, j])
                        iou = overlap(
                            lambda c: x[b, mine, coord_start + c], lambda c: x[b, other, coord_start + c], data.dtype
                        )
                        same = iou >= limit
                        if not force_suppress and id_index >= 0:
                            same = tir.And(same, tir.EQ(x[b, mine, id_index], x[b, other, id_index]))
                        with ib.if_scope(same):
                            alive[b, j] = tir.const(0, "int32")
                with ib.else_scope():
                    alive[b, i] = tir.const(0, "int32")
            _answer(ib, x, index, rank, alive, outs, b)

    def _answer(
        ib: IRBuilder,
        x: BufferVar,
        index: BufferVar,
        rank: BufferVar,
        alive: BufferVar,
        outs: tuple[BufferVar, ...],
        b: Var,
    ) -> None:
        place = local(ib, "int32", 0, "place")
        if return_indices:
            out, total = outs[0], outs[1]
            with ib.for_range(0, boxes, "k") as k, ib.if_scope(alive[b, k] > 0):
                out[b, place[0]] = index[b, rank[b, k]]
                place[0] = place[0] + 1
            total[b, 0] = place[0]
            with ib.for_range(to(place[0], "int64"), to(boxes, "int64"), "k") as k:
                out[b, k] = tir.const(-1, "int32")
            return
        out = outs[0]
        nothing = tir.const(-1, data.dtype)
        if not invalid_to_bottom:
            with ib.for_range(0, boxes, "k") as k, ib.for_range(0, elements, "e") as e:
                out[b, k, e] = tir.if_then_else(alive[b, k] > 0, x[b, rank[b, k], e], nothing)
            return
        with ib.for_range(0, boxes, "k") as k, ib.if_scope(alive[b, k] > 0):
            with ib.for_range(0, elements, "e") as e:
                out[b, place[0], e] = x[b, rank[b, k], e]
            place[0] = place[0] + 1
        with ib.for_range(to(place[0], "int64"), to(boxes, "int64"), "k") as k, ib.for_range(0, elements, "e") as e:
            out[b, k, e] = nothing

    shapes = [[batch, boxes], [batch, 1]] if return_indices else [[batch, boxes, elements]]
    dtypes = ["int32", "int32"] if return_indices else [data.dtype]
    made = program(
        shapes, dtypes, [data, valid_count, indices, order, *scalars], body, "nms", [([batch, boxes], "int32")]
    )
    return made if return_indices else made[0]


def all_class_non_max_suppression(
    boxes: te.Tensor,
    scores: te.Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> list[te.Tensor]:
    """Non-maximum suppression of each class separately: boxes (batch, boxes, 4) by two opposite corners, scores (batch, classes,
    boxes).

    "onnx": [(batch * classes * boxes, 3) int64 rows (batch, class, box), their number (1,)]. "tensorflow": [(batch, classes *
    boxes, 2) rows (class, box) with the best scores first, the scores, the number for each batch (batch,)]. The remaining rows are
    zeros.
    """
    if output_format not in ("onnx", "tensorflow"):
        raise ValueError(
            f'all_class_non_max_suppression: output_format must be "onnx" or "tensorflow", but is {output_format!r}'
        )
    batch, classes, count = shape_of(scores)
    order = argsort(scores, None, 2, False, "int32")
    named = {"most": max_output_boxes_per_class, "iou": iou_threshold, "score": score_threshold}
    given = {k: v for k, v in named.items() if isinstance(v, te.Tensor)}
    dtype = boxes.dtype

    def select(ib: IRBuilder, box: BufferVar, score: BufferVar, rank: BufferVar, *rest: BufferVar) -> None:
        read = dict(zip(given, [_scalar(r) for r in rest], strict=False))
        most = to(read.get("most", max_output_boxes_per_class), "int64")
        limit, floor = to(read.get("iou", iou_threshold), dtype), to(read.get("score", score_threshold), dtype)
        kept, number = rest[-2:]
        with (
            ib.for_range(0, batch, "b", kind=loop_kind(batch, classes, count)) as b,
            ib.for_range(0, classes, "c") as c,
        ):
            found = local(ib, "int32", 0, "found")
            with ib.for_range(0, count, "i") as i:
                mine = ib.let("mine", rank[b, c, i])
                room = tir.And(to(found[0], "int64") < most, score[b, c, mine] > floor)
                good = local(ib, "int32", to(room, "int32"), "good")
                with ib.for_range(0, found[0], "j") as j, ib.if_scope(good[0] > 0):
                    other = ib.let("other", kept[b, c, j])
                    iou = overlap(lambda k: box[b, mine, k], lambda k: box[b, other, k], dtype)
                    with ib.if_scope(iou > limit):
                        good[0] = tir.const(0, "int32")
                with ib.if_scope(good[0] > 0):
                    kept[b, c, found[0]] = mine
                    found[0] = found[0] + 1
            number[b, c] = found[0]

    kept, number = program(
        [[batch, classes, count], [batch, classes]],
        ["int32", "int32"],
        [boxes, scores, order, *given.values()],
        select,
        "select_boxes",
    )
    if output_format == "onnx":
        return _onnx_rows(kept, number)
    return _ranked_rows(scores, kept, number)


def _onnx_rows(kept: te.Tensor, number: te.Tensor) -> list[te.Tensor]:
    batch, classes, count = shape_of(kept)
    total = as_int(batch * classes * count)

    def body(ib: IRBuilder, box: BufferVar, many: BufferVar, out: BufferVar, found: BufferVar) -> None:
        at = local(ib, "int32", 0, "at")
        with (
            ib.for_range(0, batch, "b") as b,
            ib.for_range(0, classes, "c") as c,
            ib.for_range(0, many[b, c], "k") as k,
        ):
            for column, value in enumerate((b, c, box[b, c, k])):
                out[at[0], column] = to(value, "int64")
            at[0] = at[0] + 1
        found[0] = to(at[0], "int64")
        with ib.for_range(to(at[0], "int64"), to(total, "int64"), "r") as r:
            for column in range(3):
                out[r, column] = tir.const(0, "int64")

    return program([[total, 3], [1]], ["int64", "int64"], [kept, number], body, "collect_boxes")


def _ranked_rows(scores: te.Tensor, kept: te.Tensor, number: te.Tensor) -> list[te.Tensor]:
    batch, classes, count = shape_of(kept)
    each = as_int(classes * count)

    def body(
        ib: IRBuilder,
        s: BufferVar,
        box: BufferVar,
        many: BufferVar,
        rows: BufferVar,
        found: BufferVar,
        total: BufferVar,
    ) -> None:
        with ib.for_range(0, batch, "b") as b:
            at = local(ib, "int32", 0, "at")
            with ib.for_range(0, classes, "c") as c, ib.for_range(0, many[b, c], "k") as k:
                rows[b, at[0], 0] = to(c, "int64")
                rows[b, at[0], 1] = to(box[b, c, k], "int64")
                found[b, at[0]] = s[b, c, box[b, c, k]]
                at[0] = at[0] + 1
            total[b] = to(at[0], "int64")
            with ib.for_range(to(at[0], "int64"), to(each, "int64"), "r") as r:
                rows[b, r, 0] = tir.const(0, "int64")
                rows[b, r, 1] = tir.const(0, "int64")
                # Entries without a box get the lowest score, so that they come last, and zero after sorting.
                found[b, r] = tir.min_value(scores.dtype)

    rows, found, total = program(
        [[batch, each, 2], [batch, each], [batch]],
        ["int64", scores.dtype, "int64"],
        [scores, kept, number],
        body,
        "collect_scores",
    )
    rank = argsort(found, None, 1, False, "int32")

    def is_one(b: Var, k: Var) -> Any:
        return to(k, "int64") < total(b)

    ranked: te.Tensor = te.compute(
        (batch, each, 2), lambda b, k, c: rows(b, rank(b, k), c), name="ranked", tag="injective"
    )
    best: te.Tensor = te.compute(
        (batch, each),
        lambda b, k: tir.Select(is_one(b, k), found(b, rank(b, k)), tir.const(0, scores.dtype)),
        name="best",
        tag="injective",
    )
    return [ranked, best, total]


def regular_non_max_suppression(
    boxes: te.Tensor,
    scores: te.Tensor,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> list[te.Tensor]:
    """Non-maximum suppression of each class separately: [boxes (batch, max_detections, 4), their classes, their scores, the number
    of detections (batch,)]. Detections are sorted by score, the highest first; the remaining entries are zeros.

    boxes: (batch, boxes, 4). scores: (batch, classes, boxes); only the last `num_classes` classes are used.
    """
    batch, given, count = shape_of(scores)
    skipped = to(as_int(given - num_classes), "int64")
    objects: te.Tensor = te.compute(
        (batch, num_classes, count),
        lambda b, c, k: scores(b, to(c, "int64") + skipped, k),
        name="objects",
        tag="injective",
    )
    rows, best, total = all_class_non_max_suppression(
        boxes, objects, max_detections_per_class, iou_threshold, score_threshold, "tensorflow"
    )
    dtype, rows_there = scores.dtype, as_int(num_classes * count)

    def found(b: Var, k: Var, value: Callable[[Any], Any]) -> PrimExpr:
        """The value of row k, or zero beyond the number of detections."""
        at = tir.min(to(k, "int64"), to(rows_there, "int64") - 1)
        return tir.if_then_else(to(k, "int64") < total(b), value(at), tir.const(0, dtype))

    def made(name: str, more: tuple[int, ...], f: Callable[..., Any]) -> te.Tensor:
        result: te.Tensor = te.compute((batch, max_detections, *more), f, name=name, tag="injective")
        return result

    number: te.Tensor = te.compute(
        (batch,),
        lambda b: to(tir.min(total(b), tir.const(max_detections, "int64")), dtype),
        name="detections",
        tag="injective",
    )
    return [
        made("boxes", (4,), lambda b, k, e: found(b, k, lambda at: boxes(b, rows(b, at, 1), e))),
        made("classes", (), lambda b, k: found(b, k, lambda at: to(rows(b, at, 0), dtype))),
        made("scores", (), lambda b, k: found(b, k, lambda at: best(b, at))),
        number,
    ]
