"""From the output layers of Darknet's YOLO networks to boxes, and boxes drawn into a picture.

A layer is a dictionary: `type` ("Region" for YOLOv2, "Yolo" for v3), `output` [batch or anchors.., 5 + classes, rows, columns] with the
coordinates already through the logistic function, `biases` (widths and heights of the anchors), `classes`, and for "Yolo" `mask`, the
anchors that are the layer's. A detection is a dictionary of `bbox` (x, y, w, h in parts of the picture), `classes`, `objectness` and
`prob`, one number for each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Image = np.ndarray

COLORS = ((1, 0, 1), (0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 1, 0), (1, 0, 0))


class Box(NamedTuple):
    """A box, given by its centre and size."""

    x: float
    y: float
    w: float
    h: float


def overlap(a: Box, b: Box) -> float:
    """The area that two boxes share, over the area that both cover."""
    width = min(a.x + a.w / 2, b.x + b.w / 2) - max(a.x - a.w / 2, b.x - b.w / 2)
    height = min(a.y + a.h / 2, b.y + b.h / 2) - max(a.y - a.h / 2, b.y - b.h / 2)
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (a.w * a.h + b.w * b.h - width * height)


def _unlettered(box: Box, net: tuple[int, int], image: tuple[int, int], relative: bool) -> Box:
    """A box of the network's input, a picture filled up to its shape, as one of the picture."""
    (net_w, net_h), (im_w, im_h) = net, image
    if net_w / im_w < net_h / im_h:
        new_w, new_h = net_w, im_h * net_w // im_w
    else:
        new_w, new_h = im_w * net_h // im_h, net_h
    x = (box.x - (net_w - new_w) / 2 / net_w) / (new_w / net_w)
    y = (box.y - (net_h - new_h) / 2 / net_h) / (new_h / net_h)
    w, h = box.w * net_w / new_w, box.h * net_h / new_h
    return Box(x, y, w, h) if relative else Box(x * im_w, y * im_h, w * im_w, h * im_h)


def _of_layer(layer: Mapping[str, Any], thresh: float, net: tuple[int, int]) -> list[dict[str, Any]]:
    kind, classes = str(layer["type"]), int(layer["classes"])
    data = np.asarray(layer["output"])
    rows, columns = data.shape[-2:]
    data = data.reshape(-1, 5 + classes, rows, columns)
    anchors = np.asarray(layer["biases"], dtype=float).reshape(-1, 2)
    if kind == "Yolo":
        anchors = anchors[np.asarray(layer["mask"], dtype=int)] / np.asarray(net, dtype=float)
    elif kind == "Region":
        anchors = anchors / np.array([columns, rows], dtype=float)
    else:
        raise ValueError(f'a layer of detections has the type "Region" or "Yolo", but this one has {kind!r}')
    if len(anchors) != len(data):
        raise ValueError(f"the layer has {len(anchors)} anchors, but its output is for {len(data)}")
    found = []
    for n, row, column in np.argwhere(data[:, 4] > thresh):
        x, y, w, h, objectness = (float(v) for v in data[n, :5, row, column])
        chances = data[n, 5:, row, column] * objectness
        box = Box(
            (column + x) / columns, (row + y) / rows, float(np.exp(w) * anchors[n, 0]), float(np.exp(h) * anchors[n, 1])
        )
        prob = [float(p) if p > thresh else 0.0 for p in chances]
        found.append({"bbox": box, "classes": classes, "objectness": objectness, "prob": prob, "sort_class": -1})
    return found


def get_detections(
    in_shape: Sequence[int],
    image_shape: Sequence[int],
    thresh: float,
    relative: bool,
    layers_out: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Boxes that are likelier than `thresh` in any of the layers.

    in_shape, image_shape: (width, height) of the network's input and of the picture, which was filled up to it. relative: in parts
    of the picture, not in pixels. Raises ValueError for other types of layers.
    """
    net, image = (int(in_shape[0]), int(in_shape[1])), (int(image_shape[0]), int(image_shape[1]))
    found = [d for layer in layers_out for d in _of_layer(layer, thresh, net)]
    for d in found:
        d["bbox"] = _unlettered(d["bbox"], net, image, relative)
    return found


def do_nms_sort(dets: list[dict[str, Any]], classes: int, thresh: float) -> None:
    """Sets the probability to 0 of what overlaps by more than `thresh` with a likelier detection of the same class."""
    for k in range(classes):
        order = sorted([d for d in dets if d["prob"][k] > 0], key=lambda d: -d["prob"][k])
        for i, d in enumerate(order):
            if d["prob"][k] == 0:
                continue
            for other in order[i + 1 :]:
                if overlap(d["bbox"], other["bbox"]) > thresh:
                    other["prob"][k] = 0.0


def color_of(number: int, classes: int) -> tuple[float, float, float]:
    """The color of a class, of a wheel of six with what lies between."""
    at = (number * 123457 % classes) / classes * 5
    low, part = int(at), at - int(at)
    a, b = COLORS[low], COLORS[min(low + 1, 5)]
    red, green, blue = ((1 - part) * p + part * q for p, q in zip(a, b, strict=True))
    return red, green, blue


def draw_detections(
    font_path: str | None,
    image: Image,
    dets: Sequence[Mapping[str, Any]],
    thresh: float,
    names: Sequence[str],
    classes: int,
) -> Image:
    """Draws a frame for each detection with a probability above `thresh` into the image (3, rows, columns) with values from 0 to 1,
    and returns the image. With a TrueType font it also writes the names of the classes, which needs Pillow."""
    _, rows, columns = image.shape
    width = max(1, rows * 6 // 1000)
    for d in dets:
        found = [k for k in range(classes) if d["prob"][k] > thresh]
        if not found:
            continue
        box = d["bbox"]
        left, right = (int(np.clip(v * columns, 0, columns - 1)) for v in (box[0] - box[2] / 2, box[0] + box[2] / 2))
        top, bottom = (int(np.clip(v * rows, 0, rows - 1)) for v in (box[1] - box[3] / 2, box[1] + box[3] / 2))
        color = np.asarray(color_of(found[0], classes), image.dtype)[:, None, None]
        for area in (
            image[:, top : top + width, left : right + 1], image[:, max(0, bottom - width + 1) : bottom + 1, left : right + 1],
            image[:, top : bottom + 1, left : left + width], image[:, top : bottom + 1, max(0, right - width + 1) : right + 1],
        ):  # fmt: skip
            area[...] = color
        if font_path is not None:
            _write(image, ", ".join([names[k] for k in found]), font_path, (top, left), color)
    return image


def _write(image: Image, text: str, font_path: str, place: tuple[int, int], color: Image) -> None:
    from PIL import Image as Picture
    from PIL import ImageDraw, ImageFont

    font = ImageFont.truetype(font_path, max(9, image.shape[1] * 3 // 100))
    left, _, right, bottom = (int(v) for v in font.getbbox(text))
    label = Picture.new("L", (max(1, right - left), max(1, bottom)))
    ImageDraw.Draw(label).text((-left, 0), text, 255, font)
    ink = np.asarray(label, image.dtype) / 255
    top = max(0, place[0] - ink.shape[0])
    area = image[:, top : top + ink.shape[0], place[1] : place[1] + ink.shape[1]]
    ink = ink[: area.shape[1], : area.shape[2]]
    area[...] = color * (1 - ink)


def show_detections(
    image: Image, dets: Sequence[Mapping[str, Any]], thresh: float, names: Sequence[str], classes: int
) -> None:
    """Prints each detection likelier than `thresh`: its class, its probability and its box."""
    for d in dets:
        for k in range(classes):
            if d["prob"][k] > thresh:
                x, y, w, h = d["bbox"]
                print(f"class:{names[k]} Percent:{d['prob'][k] * 100:.0f}% bbox: {x:.3f}, {y:.3f}, {w:.3f}, {h:.3f}")
