"""Operators of object detection: anchors, non-maximum suppression, regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, OPAQUE, Draw, Made, OpCard, Operand, as_expr, need
from tilewright.relay.cards.relations import Dim, dims, is_any, may_equal, product, tensor, tensor_type
from tilewright.relay.expr import Expr
from tilewright.relay.op.movement.indexing import integers

NO_GRADIENT = "its regions are found by comparing; keep adjoints from it"


def np_overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The intersection over union of two boxes, each given by two opposite corners."""
    low_a, high_a = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    low_b, high_b = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    sides = np.maximum(0, np.minimum(high_a, high_b) - np.maximum(low_a, low_b))
    both = sides.prod()
    union = (high_a - low_a).prod() + (high_b - low_b).prod() - both
    return float(both / union) if union > 0 else 0.0


def _boxes(batch: int, count: int, classes: int) -> Draw:
    """A sample: rows (class, score, x, y, x, y), all scores different."""

    def make(rng: np.random.Generator) -> np.ndarray:
        corner = rng.uniform(0, 4, (batch, count, 2))
        kind = rng.integers(0, classes, (batch, count, 1))
        score = rng.permuted(np.linspace(0.1, 0.9, batch * count)).reshape(batch, count, 1)
        return np.concatenate([kind, score, corner, corner + rng.uniform(1, 4, (batch, count, 2))], 2).astype(
            np.float32
        )

    return make


def _places(batch: int, count: int) -> np.ndarray:
    return np.tile(np.arange(count, dtype=np.int32), (batch, 1))


class multibox_prior(OpCard, key="vision.multibox_prior"):
    """Anchor boxes (x, y, x, y, as fractions of the image) around each element of data (N, C, H, W): each size with the first
    ratio, and the first size with each other ratio: (1, H * W * boxes, 4)."""

    sizes: tuple[float, ...] = (1.0,)
    ratios: tuple[float, ...] = (1.0,)
    steps: tuple[float, ...] = (-1.0, -1.0)
    offsets: tuple[float, ...] = (0.5, 0.5)
    clip: bool = False
    flat = True
    fuse = INJECTIVE
    samples = [
        (((1, 2, 2, 3),), {"sizes": (0.5, 0.25), "ratios": (1.0, 2.0)}),
        (((1, 2, 2, 2),), {"clip": True, "steps": (0.6, 0.4), "offsets": (0.4, 0.6)}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        h, w = dims(t)[2:]
        need(isinstance(h, int) and isinstance(w, int), "H and W must be known", f"they are {h} and {w}", 0)
        return tensor_type((1, product([h, w, len(self.sizes) + len(self.ratios) - 1]), 4), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.vision.multibox_prior(data, self.sizes, self.ratios, self.steps, self.offsets, self.clip)

    def ref(self, data: np.ndarray) -> np.ndarray:
        h, w = data.shape[2:]
        steps_h, steps_w = [s if s > 0 else 1.0 / d for s, d in zip(self.steps, (h, w), strict=True)]
        halves = [(s * h / w / 2, s / 2) for s in self.sizes]
        halves += [(self.sizes[0] * h / w * r**0.5 / 2, self.sizes[0] / r**0.5 / 2) for r in self.ratios[1:]]
        rows = []
        for y, x in np.ndindex(h, w):
            cx, cy = (x + self.offsets[1]) * steps_w, (y + self.offsets[0]) * steps_h
            rows += [(cx - a, cy - b, cx + a, cy + b) for a, b in halves]
        out = np.array(rows, data.dtype)[None]
        return np.clip(out, 0, 1) if self.clip else out


class multibox_transform_loc(OpCard, key="vision.multibox_transform_loc"):
    """(rows (class, score, x, y, x, y), their number): the anchors whose best class, other than the background 0, has at least the
    score `threshold`. Rows after them are -1. Arguments: cls_prob (batch, classes, anchors), loc_pred (batch, anchors * 4),
    anchor (1, anchors, 4). keep_background: treat class 0 like the others."""

    clip: bool = True
    threshold: float = 0.01
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2)
    keep_background: bool = False
    outputs = 2
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    samples = [
        (
            (
                lambda rng: rng.dirichlet(np.ones(3), (2, 5)).transpose(0, 2, 1).astype(np.float32),
                (2, 20),
                lambda rng: _boxes(1, 5, 2)(rng)[:, :, 2:] / 8,
            ),
            {"threshold": 0.4, "keep_background": background},
        )
        for background in (False, True)
    ]  # fmt: skip

    @classmethod
    def make(
        cls,
        cls_prob: Operand,
        loc_pred: Operand,
        anchor: Operand,
        clip: bool = True,
        threshold: float = 0.01,
        variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
        keep_background: bool = False,
        span: BaseSpan | None = None,
    ) -> Made:
        """Returns the rows and their number."""
        attrs = {"clip": clip, "threshold": threshold, "variances": variances, "keep_background": keep_background}
        return cls.call([cls_prob, loc_pred, anchor], attrs, span)

    def infer(self, cls_prob: TensorType, loc_pred: TensorType, anchor: TensorType) -> Type:
        p, loc, a = tensor(cls_prob, 0, 3), tensor(loc_pred, 1, 2), tensor(anchor, 2, 3)
        batch, _, count = dims(p)
        need(
            may_equal(dims(loc)[1], product([count, 4])) and may_equal(dims(a)[1], count) and may_equal(dims(a)[2], 4),
            "there must be four predictions and four corners for each anchor",
            f"there are {count} anchors, {dims(loc)[1]} predictions and corners {dims(a)[1:]}",
            1,
        )
        return TupleType((tensor_type((batch, count, 6), p.dtype), tensor_type((batch,), "int32")))

    def compute(self, cls_prob: te.Tensor, loc_pred: te.Tensor, anchor: te.Tensor) -> list[te.Tensor]:
        return topi.vision.multibox_transform_loc(
            cls_prob, loc_pred, anchor, self.clip, self.threshold, self.variances, self.keep_background
        )

    def ref(self, cls_prob: np.ndarray, loc_pred: np.ndarray, anchor: np.ndarray) -> tuple[np.ndarray, ...]:
        batch, _, count = cls_prob.shape
        out = np.full((batch, count, 6), -1, cls_prob.dtype)
        valid = np.zeros(batch, np.int32)
        for b, k in np.ndindex(batch, count):
            start = 0 if self.keep_background else 1
            kind = int(cls_prob[b, start:, k].argmax())
            score = cls_prob[b, kind + start, k]
            if score < self.threshold:
                continue
            low, high = anchor[0, k, :2], anchor[0, k, 2:]
            shift = loc_pred[b, 4 * k : 4 * k + 4] * np.array(self.variances, cls_prob.dtype)
            centre = shift[:2] * (high - low) + (low + high) / 2
            half = np.exp(shift[2:]) * (high - low) / 2
            corners = np.concatenate([centre - half, centre + half])
            out[b, valid[b]] = [kind, score, *(np.clip(corners, 0, 1) if self.clip else corners)]
            valid[b] += 1
        return out, valid


class get_valid_counts(OpCard, key="vision.get_valid_counts"):
    """(number of boxes in each batch with a score above the threshold and, unless id_index is negative, a class of at least 0;
    these boxes at the front; their positions). Entries after them are -1. data: (batch, boxes, elements). score_threshold: a
    scalar."""

    id_index: int = 0
    score_index: int = 1
    outputs = 3
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    samples = [
        ((_boxes(2, 5, 3), np.array(0.4, np.float32)), {}),
        ((_boxes(1, 4, 3), np.array(0.0, np.float32)), {"id_index": -1}),
    ]

    @classmethod
    def make(
        cls,
        data: Operand,
        score_threshold: Operand,
        id_index: int = 0,
        score_index: int = 1,
        span: BaseSpan | None = None,
    ) -> Made:
        """score_threshold: a number or an expression."""
        given = score_threshold if isinstance(score_threshold, Expr) else as_expr(np.array(score_threshold, np.float32))
        return cls.call([data, given], {"id_index": id_index, "score_index": score_index}, span)

    def infer(self, data: TensorType, score_threshold: TensorType) -> Type:
        t = tensor(data, 0, 3)
        tensor(score_threshold, 1)
        batch, boxes, _ = dims(t)
        return TupleType((tensor_type((batch,), "int32"), t, tensor_type((batch, boxes), "int32")))

    def compute(self, data: te.Tensor, score_threshold: te.Tensor) -> list[te.Tensor]:
        return topi.vision.get_valid_counts(data, score_threshold, self.id_index, self.score_index)

    def ref(self, data: np.ndarray, score_threshold: np.ndarray) -> tuple[np.ndarray, ...]:
        counts = np.zeros(data.shape[0], np.int32)
        out, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
        for b, rows in enumerate(data):
            good = rows[:, self.score_index] > score_threshold.reshape(-1)[0]
            if self.id_index >= 0:
                good &= rows[:, self.id_index] >= 0
            found = np.flatnonzero(good)
            counts[b] = len(found)
            out[b, : len(found)], places[b, : len(found)] = rows[found], found
        return counts, out, places


class non_max_suppression(OpCard, key="vision.non_max_suppression"):
    """Removes the boxes of each batch that overlap a better box (of the same class, unless force_suppress) by `iou_threshold` or
    more. data (batch, boxes, elements), valid_count (batch,), indices (batch, boxes): the positions to return.

    With return_indices: (the positions of the boxes that remain, then -1; their number (batch, 1)). Otherwise the boxes, best
    first, with -1 for each removed one; invalid_to_bottom moves the removed ones to the end.
    """

    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    samples = [
        (
            (_boxes(2, 6, 2), np.array([6, 4], np.int32), _places(2, 6), np.array(-1, np.int32), np.array(0.3, np.float32)),
            {},
        ),
        (
            (_boxes(1, 6, 3), np.array([5], np.int32), _places(1, 6), np.array(3, np.int32), np.array(0.2, np.float32)),
            {"return_indices": False, "force_suppress": True, "top_k": 4},
        ),
        (
            (_boxes(1, 6, 3), np.array([6], np.int32), _places(1, 6), np.array(-1, np.int32), np.array(0.2, np.float32)),
            {"return_indices": False, "invalid_to_bottom": True},
        ),
    ]  # fmt: skip

    @property
    def outputs(self) -> int:
        """The number of results: two with return_indices, else one."""
        return 2 if self.return_indices else 1

    @classmethod
    def make(
        cls,
        data: Operand,
        valid_count: Operand,
        indices: Operand,
        max_output_size: Operand = -1,
        iou_threshold: Operand = 0.5,
        force_suppress: bool = False,
        top_k: int = -1,
        coord_start: int = 2,
        score_index: int = 1,
        id_index: int = 0,
        return_indices: bool = True,
        invalid_to_bottom: bool = False,
        span: BaseSpan | None = None,
    ) -> Made:
        """max_output_size, iou_threshold: numbers or expressions."""
        most = max_output_size if isinstance(max_output_size, Expr) else as_expr(np.array(max_output_size, np.int32))
        limit = iou_threshold if isinstance(iou_threshold, Expr) else as_expr(np.array(iou_threshold, np.float32))
        attrs = {
            "force_suppress": force_suppress,
            "top_k": top_k,
            "coord_start": coord_start,
            "score_index": score_index,
            "id_index": id_index,
            "return_indices": return_indices,
            "invalid_to_bottom": invalid_to_bottom,
        }
        return cls.call([data, valid_count, indices, most, limit], attrs, span)

    def infer(
        self,
        data: TensorType,
        valid_count: TensorType,
        indices: TensorType,
        max_output_size: TensorType,
        iou_threshold: TensorType,
    ) -> Type:
        t, v, i = tensor(data, 0, 3), integers(tensor(valid_count, 1, 1), 1), integers(tensor(indices, 2, 2), 2)
        integers(tensor(max_output_size, 3), 3)
        tensor(iou_threshold, 4)
        batch, boxes, _ = dims(t)
        need(
            may_equal(dims(v)[0], batch),
            "there must be a count for each batch",
            f"there are {dims(v)[0]} of {batch}",
            1,
        )
        fits = may_equal(dims(i)[0], batch) and may_equal(dims(i)[1], boxes)
        need(fits, "there must be an index for each box", f"they are {dims(i)} for {batch} x {boxes}", 2)
        if not self.return_indices:
            return t
        return TupleType((tensor_type((batch, boxes), "int32"), tensor_type((batch, 1), "int32")))

    def compute(self, *args: te.Tensor) -> Any:
        suppress: Any = topi.vision.non_max_suppression
        return suppress(
            *args, self.force_suppress, self.top_k, self.coord_start, self.score_index, self.id_index,
            self.return_indices, self.invalid_to_bottom,
        )  # fmt: skip

    def ref(
        self,
        data: np.ndarray,
        valid_count: np.ndarray,
        indices: np.ndarray,
        max_output_size: np.ndarray,
        iou_threshold: np.ndarray,
    ) -> Any:
        batch, boxes, _ = data.shape
        most, limit = int(max_output_size.reshape(-1)[0]), float(iou_threshold.reshape(-1)[0])
        places, counts = np.full((batch, boxes), -1, np.int32), np.zeros((batch, 1), np.int32)
        out = np.full_like(data, -1)
        c = self.coord_start
        for b in range(batch):
            count = int(valid_count[b])
            order = np.argsort(-data[b, :count, self.score_index], kind="stable")
            number = min(count, self.top_k) if self.top_k > 0 else count
            kept: list[int] = []
            for rank, k in enumerate(order[:number]):
                row = data[b, k]
                if self.id_index >= 0 and row[self.id_index] < 0 or 0 <= most <= len(kept):
                    continue
                rivals = [
                    j for j in kept
                    if self.force_suppress or self.id_index < 0 or data[b, j, self.id_index] == row[self.id_index]
                ]  # fmt: skip
                if any([np_overlap(data[b, j, c : c + 4], row[c : c + 4]) >= limit for j in rivals]):
                    continue
                out[b, len(kept) if self.invalid_to_bottom else rank] = row
                kept.append(int(k))
            places[b, : len(kept)], counts[b] = indices[b, kept], len(kept)
        return (places, counts) if self.return_indices else out


class all_class_non_max_suppression(OpCard, key="vision.all_class_non_max_suppression"):
    """Non-maximum suppression of each class separately: boxes (batch, boxes, 4) by two opposite corners, scores (batch, classes,
    boxes), three scalars.

    "onnx": (int64 rows (batch, class, box), as many as there can be; their number (1,)). "tensorflow": (rows (class, box), best
    scores first; the scores; their number (batch,)). Rows after them are zeros.
    """

    output_format: str = "onnx"
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    samples = [
        (
            (
                lambda rng: _boxes(2, 4, 2)(rng)[:, :, 2:],
                lambda rng: rng.permuted(np.linspace(0.05, 0.95, 24)).reshape(2, 3, 4).astype(np.float32),
                np.array(3, np.int64), np.array(0.3, np.float32), np.array(0.2, np.float32),
            ),
            {"output_format": form},
        )
        for form in ("onnx", "tensorflow")
    ]  # fmt: skip

    @property
    def outputs(self) -> int:
        """The number of results: two (rows and number) for "onnx", three (rows, scores and numbers) for "tensorflow"."""
        return 2 if self.output_format == "onnx" else 3

    @classmethod
    def make(
        cls,
        boxes: Operand,
        scores: Operand,
        max_output_boxes_per_class: Operand = -1,
        iou_threshold: Operand = -1.0,
        score_threshold: Operand = -1.0,
        output_format: str = "onnx",
        span: BaseSpan | None = None,
    ) -> Made:
        """The scalars are numbers or expressions."""
        scalars = [
            v if isinstance(v, Expr) else as_expr(np.array(v, dtype))
            for v, dtype in (
                (max_output_boxes_per_class, np.int64),
                (iou_threshold, np.float32),
                (score_threshold, np.float32),
            )
        ]
        return cls.call([boxes, scores, *scalars], {"output_format": output_format}, span)

    def infer(
        self,
        boxes: TensorType,
        scores: TensorType,
        max_output_boxes_per_class: TensorType,
        iou_threshold: TensorType,
        score_threshold: TensorType,
    ) -> Type:
        b, s = tensor(boxes, 0, 3), tensor(scores, 1, 3)
        for k, t in enumerate((max_output_boxes_per_class, iou_threshold, score_threshold), 2):
            need(len(tensor(t, k).shape) <= 1, "this must be a scalar", f"it is {t}", k)
        forms = ("onnx", "tensorflow")
        need(
            self.output_format in forms, 'output_format must be "onnx" or "tensorflow"', f"it is {self.output_format!r}"
        )
        batch, classes, count = dims(s)
        fits = may_equal(dims(b)[0], batch) and may_equal(dims(b)[1], count) and may_equal(dims(b)[2], 4)
        need(fits, "there must be a box of four numbers for each score", f"they are {dims(b)} and {dims(s)}", 1)
        if self.output_format == "onnx":
            return TupleType((tensor_type((product([batch, classes, count]), 3), "int64"), tensor_type((1,), "int64")))
        rows: Dim = product([classes, count])
        found = tensor_type((batch, rows, 2), "int64"), tensor_type((batch, rows), s.dtype)
        return TupleType((*found, tensor_type((batch,), "int64")))

    def compute(self, *args: te.Tensor) -> list[te.Tensor]:
        suppress: Any = topi.vision.all_class_non_max_suppression
        found: list[te.Tensor] = suppress(*args, self.output_format)
        return found

    def ref(
        self,
        boxes: np.ndarray,
        scores: np.ndarray,
        max_output_boxes_per_class: np.ndarray,
        iou_threshold: np.ndarray,
        score_threshold: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        batch, classes, count = scores.shape
        most, limit, floor = [v.reshape(-1)[0] for v in (max_output_boxes_per_class, iou_threshold, score_threshold)]
        rows: list[list[tuple[int, int, float]]] = [[] for _ in range(batch)]
        for b, c in np.ndindex(batch, classes):
            kept: list[int] = []
            for k in np.argsort(-scores[b, c], kind="stable"):
                if len(kept) < most and scores[b, c, k] > floor:
                    if not any([np_overlap(boxes[b, j], boxes[b, k]) > limit for j in kept]):
                        kept.append(int(k))
            rows[b] += [(c, k, scores[b, c, k]) for k in kept]
        if self.output_format == "onnx":
            every = [(b, c, k) for b, found in enumerate(rows) for c, k, _ in found]
            out = np.zeros((scores.size, 3), np.int64)
            out[: len(every)] = every
            return out, np.array([len(every)], np.int64)
        out = np.zeros((batch, classes * count, 2), np.int64)
        best = np.zeros((batch, classes * count), scores.dtype)
        for b, found in enumerate(rows):
            for r, (c, k, score) in enumerate(sorted(found, key=lambda f: -f[2])):
                out[b, r], best[b, r] = (c, k), score
        return out, best, np.array([len(found) for found in rows], np.int64)


class regular_non_max_suppression(OpCard, key="vision.regular_non_max_suppression"):
    """TFLite's non-maximum suppression of each class separately: (boxes (batch, max_detections, 4), classes, scores, number of
    detections (batch,)), all float32. Detections are sorted by score, the highest first; entries after them are zeros.
    Arguments: boxes (batch, boxes, 4) by two opposite corners; scores (batch, classes, boxes); the last `num_classes`
    classes are used."""

    max_detections_per_class: int
    max_detections: int
    num_classes: int
    iou_threshold: float
    score_threshold: float
    outputs = 4
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    samples = [
        (
            (
                lambda rng: _boxes(2, 4, 2)(rng)[:, :, 2:],
                lambda rng: rng.permuted(np.linspace(0.05, 0.95, 24)).reshape(2, 3, 4).astype(np.float32),
            ),
            {"max_detections_per_class": each, "max_detections": most, "num_classes": classes,
             "iou_threshold": 0.3, "score_threshold": 0.2},
        )
        for each, most, classes in ((3, 5, 2), (1, 16, 3))
    ]  # fmt: skip

    def infer(self, boxes: TensorType, scores: TensorType) -> Type:
        b, s = tensor(boxes, 0, 3), tensor(scores, 1, 3)
        batch, classes, count = dims(s)
        fits = may_equal(dims(b)[0], batch) and may_equal(dims(b)[1], count) and may_equal(dims(b)[2], 4)
        need(fits, "there must be a box of four numbers for each score", f"they are {dims(b)} and {dims(s)}", 1)
        enough = not isinstance(classes, int) or 0 < self.num_classes <= classes
        need(enough, "num_classes must be among the classes of the scores", f"{self.num_classes} of {classes}", 1)
        rows = [tensor_type((batch, self.max_detections, *more), s.dtype) for more in ((4,), (), ())]
        return TupleType((*rows, tensor_type((batch,), s.dtype)))

    def compute(self, boxes: te.Tensor, scores: te.Tensor) -> list[te.Tensor]:
        limits = self.iou_threshold, self.score_threshold
        return topi.vision.regular_non_max_suppression(
            boxes, scores, self.max_detections_per_class, self.max_detections, self.num_classes, *limits
        )

    def ref(self, boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        scalars = np.array(self.max_detections_per_class), np.array(self.iou_threshold), np.array(self.score_threshold)
        objects = scores[:, scores.shape[1] - self.num_classes :]
        suppress = all_class_non_max_suppression
        rows, best, number = suppress(output_format="tensorflow").ref(boxes, objects, *scalars)
        shape = (len(boxes), self.max_detections)
        found = np.zeros((*shape, 4), scores.dtype), np.zeros(shape, scores.dtype), np.zeros(shape, scores.dtype)
        many = np.minimum(number, self.max_detections)
        for b, n in enumerate(many):
            found[0][b, :n], found[1][b, :n] = boxes[b, rows[b, :n, 1]], rows[b, :n, 0]
            found[2][b, :n] = best[b, :n]
        return (*found, many.astype(scores.dtype))


class yolo_reorg(OpCard, key="vision.yolo_reorg"):
    """Darknet's reorg: reads data (N, C, H, W) as (N, C / s^2, H * s, W * s), where s is `stride`, and turns its blocks of s x s
    elements into channels: (N, C * s^2, H / s, W / s)."""

    stride: int
    fuse = INJECTIVE
    samples = [(((2, 8, 4, 6),), {"stride": 2})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        n, c, h, w = dims(t)
        s = self.stride
        need(not isinstance(c, int) or c % (s * s) == 0, "stride squared must divide the channels", f"{s} and {c}", 0)
        for d in (h, w):
            need(not isinstance(d, int) or d % s == 0, "stride must divide H and W", f"{s} and {d}", 0)
        parts = [d if is_any(d) else d // s for d in (h, w)]
        return tensor_type((n, product([c, s * s]), *parts), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.vision.reorg(data, self.stride)

    def ref(self, data: np.ndarray) -> np.ndarray:
        n, c, h, w = data.shape
        s = self.stride
        wide = data.reshape(n, c // (s * s), h, s, w, s)
        apart = wide.transpose(0, 3, 5, 1, 2, 4).reshape(n, c, h, w)
        return apart.reshape(n, c * s * s, h // s, w // s)
