"""Converters of box suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call, host_call_sized
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, converters, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host


@tf_op("NonMaxSuppression")
def _oldest_suppression(c: NodeCall, boxes: Value, scores: Value, most: Value) -> Any:
    limit = c.number(float(c.attr("iou_threshold", 0.5)), "float32")
    return converters["NonMaxSuppressionV3"](c.renamed("NonMaxSuppressionV3"), boxes, scores, most, limit)


@tf_op("NonMaxSuppressionWithOverlaps")
def _overlap_suppression(c: NodeCall, overlaps: Value, scores: Value, most: Value, limit: Value, least: Value) -> Value:
    return host_call_sized(c, "tf.overlaps", [overlaps, scores, most, limit, least], 1, "int32")


@string_host("tf.overlaps", sized=True)
def _run_overlaps(
    config: Config, overlaps: np.ndarray, scores: np.ndarray, most: np.ndarray, limit: np.ndarray, least: np.ndarray
) -> np.ndarray:
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable").tolist():
        if len(kept) < int(most) and scores[k] > least and all([overlaps[k, j] <= limit for j in kept]):
            kept.append(k)
    return np.array(kept, np.int32)


@tf_op("CombinedNonMaxSuppression")
def _combined(
    c: NodeCall, boxes: Value, scores: Value, each: Value, most: Value, limit: Value, least: Value
) -> list[Value]:
    per, total = int(c.number_of(each, "max_output_size_per_class")), int(c.number_of(most, "max_total_size"))
    batch, _, classes = c.static(scores.shape, "the shape of its scores")
    count = min(total, per * classes) if c.attr("pad_per_class", False) else total
    config: Config = {
        "per": per, "total": total, "count": count, "limit": float(c.number_of(limit, "iou_threshold")),
        "least": float(c.number_of(least, "score_threshold")), "clip": bool(c.attr("clip_boxes", True)),
    }  # fmt: skip
    whole = host_call(c, "tf.combined", [boxes, scores], [batch, count, 7], "float32", **config)
    parts = [c.cut(whole, 2, a, b) for a, b in ((0, 4), (4, 5), (5, 6), (6, 7))]
    scores_, classes_, valid = (c.reshape(p, [batch, count]) for p in parts[1:])
    return [parts[0], scores_, classes_, c.cast(c.reduce("sum", valid, [1]), "int32")]


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The intersection over union of boxes (corners in any order)."""
    corners = [
        np.concatenate([np.minimum(v[..., :2], v[..., 2:]), np.maximum(v[..., :2], v[..., 2:])], -1) for v in (a, b)
    ]
    inner = np.maximum(
        np.minimum(corners[0][..., 2:], corners[1][..., 2:]) - np.maximum(corners[0][..., :2], corners[1][..., :2]), 0
    )
    sizes = [np.prod(v[..., 2:] - v[..., :2], -1) for v in corners]
    shared = np.prod(inner, -1)
    return np.where((sizes[0] > 0) & (sizes[1] > 0), shared / np.maximum(sizes[0] + sizes[1] - shared, 1e-30), 0.0)


def suppressed(boxes: np.ndarray, scores: np.ndarray, most: int, limit: float, least: float) -> list[int]:
    """Indices of the kept boxes, best first."""
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == most or scores[k] <= least:
            break
        if not kept or not (overlap(boxes[kept], boxes[k][None]) > limit).any():
            kept.append(k)
    return kept


@string_host("tf.combined")
def _run_combined(config: Config, boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Rows of box, score, class, and 1 for valid rows."""
    out = np.zeros((len(scores), config["count"], 7), np.float32)
    for b in range(len(scores)):
        found: list[tuple[float, int, np.ndarray]] = []
        for k in range(scores.shape[2]):
            own = boxes[b, :, min(k, boxes.shape[2] - 1)]
            found += [
                (float(scores[b, i, k]), k, own[i])
                for i in suppressed(own, scores[b, :, k], config["per"], config["limit"], config["least"])
            ]
        found.sort(key=lambda f: -f[0])
        for row, (score, k, box) in enumerate(found[: config["count"]]):
            out[b, row] = [*(np.clip(box, 0, 1) if config["clip"] else box), score, k, 1]
    return out
