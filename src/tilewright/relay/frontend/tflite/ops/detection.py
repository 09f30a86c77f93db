"""Converters of box suppression, and of the post-processing of detectors (a custom operator)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.flexbuffer import options_of
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.relay.frontend.tflite.ops.quantized import real
from tilewright.support.errors import OpNotImplemented


def suppressed(
    node: Node, boxes: Value, scores: Value, most: int, overlap: Any, floor: Any
) -> tuple[Value, Value, Value]:
    """(rows of (class, box), their scores, the number of valid rows) of all classes, best first. boxes (n, 4), scores (classes, n)."""
    rows, best, count = node.calls(
        "vision.all_class_non_max_suppression",
        node.reshape(boxes, [1, *boxes.shape]),
        node.reshape(scores, [1, *scores.shape]),
        Value(array=np.array(most, np.int64)),
        overlap,
        floor,
        output_format="tensorflow",
    )
    total = rows.shape[1]
    return node.reshape(rows, [total, 2]), node.reshape(best, [total]), node.reshape(count, [1])


def first(node: Node, x: Value, count: int) -> Value:
    """The first `count` rows, padded with zeros."""
    have = x.shape[0]
    if have >= count:
        return node.call("strided_slice", x, begin=(0,), end=(count,), axes=(0,))
    return node.call("nn.pad", x, 0, pad_width=((0, count - have), *[(0, 0)] * (x.ndim - 1)))


@tflite_op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _suppression(
    node: Node, boxes: Value, scores: Value, most: Value, overlap: Value, floor: Value, sigma: Value | None = None
) -> list[Value]:
    if sigma is not None and float(node.numbers(sigma, "soft_nms_sigma").reshape(-1)[0]) > 0:
        raise OpNotImplemented(
            "its soft_nms_sigma is not 0 (scores decay); supported: 0 (overlapping boxes are left out)"
        )
    count = int(node.whole(most, "max_output_size").reshape(-1)[0])
    small([count], "its result")
    limits = [node.reshape(v, ()) for v in (overlap, floor)]
    rows, best, number = suppressed(node, boxes, node.reshape(scores, [1, *scores.shape]), count, *limits)
    number = node.cast(node.call("minimum", number, count), "int32")
    here = node.call("less", Value(array=np.arange(count, dtype=np.int32)), number)
    places = node.reshape(
        first(node, node.call("strided_slice", rows, begin=(1,), end=(2,), axes=(1,)), count), [count]
    )
    chosen = node.call("where", here, node.cast(places, "int32"), node.number(0, "int32"))
    total = node.reshape(number, ())
    if sigma is None:
        return [chosen, total]
    return [chosen, node.call("where", here, first(node, best, count), node.number(0.0, "float32")), total]


@tflite_op("TFLite_Detection_PostProcess")
def _post_process(node: Node, encoded: Value, predictions: Value, anchors: Value) -> list[Value]:
    """Decoded boxes of anchors with their best classes, without boxes that overlap a better one."""
    options = options_of(node.record.custom_options)
    most = int(options["max_detections"])
    classes = int(options["num_classes"])
    each = int(options.get("max_classes_per_detection", 1))
    small([most], "its result")
    regular = bool(options.get("use_regular_nms", False))
    if not regular and each != 1:
        raise OpNotImplemented(f"it returns {each} classes for each box; supported: 1, or use_regular_nms")
    codes = node.reshape(real(node, encoded), [-1, encoded.shape[-1]])
    cut = node.calls(
        "split", node.call("strided_slice", codes, begin=(0,), end=(4,), axes=(1,)), indices_or_sections=4, axis=1
    )
    ay, ax, ah, aw = node.calls("split", real(node, anchors), indices_or_sections=4, axis=1)
    scale = [float(options.get(f"{a}_scale", 0.0)) for a in "yxhw"]
    if 0.0 in scale:
        raise OpNotImplemented(
            f"its option {'yxhw'[scale.index(0.0)]}_scale is 0 or left out; coordinates are divided by it"
        )
    y, x, h, w = [node.call("divide", v, s) for v, s in zip(cut, scale, strict=True)]
    sides = []
    for centre, size, at, reach in ((y, h, ay, ah), (x, w, ax, aw)):
        middle = node.call("add", node.call("multiply", centre, reach), at)
        half = node.call("multiply", node.call("multiply", node.call("exp", size), reach), 0.5)
        sides.append((node.call("subtract", middle, half), node.call("add", middle, half)))
    boxes = node.call("concatenate", [sides[0][0], sides[1][0], sides[0][1], sides[1][1]], axis=1)
    scores = node.reshape(real(node, predictions), [-1, predictions.shape[-1]])
    background = scores.shape[-1] - classes
    scores = node.call("strided_slice", scores, begin=(background,), end=(background + classes,), axes=(1,))
    by_class = node.transpose(scores, (1, 0))
    per_class = int(options.get("detections_per_class", 100)) if regular else most
    if not regular:
        by_class = node.call("max", by_class, axis=(0,), keepdims=True)
    limits = [node.number(float(options[k]), "float32") for k in ("nms_iou_threshold", "nms_score_threshold")]
    rows, best, number = suppressed(node, boxes, by_class, per_class, *limits)
    number = node.cast(node.call("minimum", number, most), "int32")
    here = node.call("less", Value(array=np.arange(most, dtype=np.int32)), number)
    rows = first(node, node.cast(rows, "int32"), most)
    kinds, places = [node.reshape(v, [most]) for v in node.calls("split", rows, indices_or_sections=2, axis=1)]
    if not regular:
        kinds = node.call("take", node.call("argmax", scores, axis=(1,)), places, axis=0, mode="clip")
    zero = node.number(0.0, "float32")
    found = node.call(
        "where", node.reshape(here, [most, 1]), node.call("take", boxes, places, axis=0, mode="clip"), zero
    )
    labels = node.call("where", here, node.cast(kinds, "float32"), zero)
    values = node.call("where", here, first(node, best, most), zero)
    return [
        node.reshape(found, [1, most, 4]),
        node.reshape(labels, [1, most]),
        node.reshape(values, [1, most]),
        node.cast(number, "float32"),
    ]
