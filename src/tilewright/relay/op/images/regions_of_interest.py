"""Operators on regions of interest: pooling and proposals."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, Draw, OpCard, need
from tilewright.relay.cards.relations import dims, each, may_equal, product, tensor, tensor_type
from tilewright.relay.op.images.detection import NO_GRADIENT, np_overlap
from tilewright.relay.op.movement.indexing import need_elements


def _regions(images: int, count: int, extent: float) -> Draw:
    def make(rng: np.random.Generator) -> np.ndarray:
        corner = rng.uniform(0, extent / 2, (count, 2))
        image = rng.integers(0, images, (count, 1))
        return np.concatenate([image, corner, corner + rng.uniform(1, extent / 2, (count, 2))], 1).astype(np.float32)

    return make


def _image(data: np.ndarray, number: float) -> np.ndarray:
    """The image of a region. A number out of bounds is clipped."""
    return np.asarray(data[int(np.clip(np.nan_to_num(number), 0, len(data) - 1))])


class Region(OpCard):
    """Base of pooling over regions. rois (count, 5): the image number (clipped to the batch), then x, y of two corners, which are
    multiplied by `spatial_scale`."""

    pooled_size: tuple[int, ...]
    spatial_scale: float
    layout: str = "NCHW"
    fuse = OPAQUE

    def infer(self, data: TensorType, rois: TensorType) -> Type:
        t, r = tensor(data, 0, 4), tensor(rois, 1, 2)
        need(may_equal(dims(r)[1], 5), "a region has five numbers", f"it has {dims(r)[1]}", 1)
        need(sorted(self.layout) == sorted("NCHW"), "layout must be NCHW or NHWC", f"it is {self.layout}")
        sizes = each(self.pooled_size, 2, "pooled_size")
        channels = dims(t)[self.layout.index("C")]
        out = {"N": dims(r)[0], "C": channels, "H": sizes[0], "W": sizes[1]}
        need_elements(dims(t), [out[a] for a in self.layout])
        return tensor_type(tuple([out[a] for a in self.layout]), t.dtype)


class roi_align(Region, key="vision.roi_align"):
    """The mean ("avg") or maximum ("max") of bilinear samples in each bin of each region. mode "max_term": the largest of the four
    terms of a bilinear sample, as in ONNX. rois (count, 5): image number, x, y, x, y, the coordinates multiplied by
    `spatial_scale`. sample_ratio: samples along each axis of a bin; -1: one for each element. aligned: elements are centred at
    half-integer coordinates, and regions may be smaller than an element."""

    sample_ratio: int = -1
    layout: str = "NCHW"
    mode: str = "avg"
    aligned: bool = False
    first = ("pooled_size", "spatial_scale", "sample_ratio")
    tolerance = 1e-4
    samples = [
        (((2, 2, 6, 7), _regions(2, 3, 8)), {"pooled_size": (2, 3), "spatial_scale": 0.8, "sample_ratio": 2}),
        (((1, 2, 6, 7), _regions(1, 2, 8)), {"pooled_size": (2, 2), "spatial_scale": 1.0}),
        (
            ((1, 6, 7, 2), _regions(1, 2, 8)),
            {"pooled_size": (2,), "spatial_scale": 0.5, "layout": "NHWC", "mode": "max"},
        ),
        (((2, 2, 6, 7), _regions(2, 3, 8)), {"pooled_size": (2, 3), "spatial_scale": 0.2, "aligned": True}),
        (((1, 2, 6, 7), _regions(1, 2, 8)), {"pooled_size": (2, 2), "spatial_scale": 1.0, "mode": "max_term"}),
    ]

    @property
    def undifferentiable(self) -> str | None:
        """The reason why there is no adjoint, if regions decide the number of samples."""
        if self.sample_ratio > 0 and self.mode == "avg":
            return None
        return "only means of a fixed number of samples (sample_ratio) have one"

    def compute(self, data: te.Tensor, rois: te.Tensor) -> te.Tensor:
        form = topi.vision.roi_align_nhwc if self.layout == "NHWC" else topi.vision.roi_align_nchw
        return form(data, rois, self.pooled_size, self.spatial_scale, self.mode, self.sample_ratio, self.aligned)

    def ref(self, data: np.ndarray, rois: np.ndarray) -> np.ndarray:
        x = data.transpose(0, 3, 1, 2) if self.layout == "NHWC" else data
        ph, pw = each(self.pooled_size, 2, "pooled_size")
        _, channels, height, width = x.shape
        out = np.zeros((len(rois), channels, ph, pw), data.dtype)
        real = data.dtype.type
        for r, (image, *corners) in enumerate(rois.astype(data.dtype)):
            x0, y0, x1, y1 = [c * real(self.spatial_scale) for c in corners]
            least = real(-np.inf if self.aligned else 1)
            bh, bw = max(y1 - y0, least) / real(ph), max(x1 - x0, least) / real(pw)
            if self.aligned:
                y0, x0 = y0 - real(0.5), x0 - real(0.5)
            ny = self.sample_ratio if self.sample_ratio > 0 else max(int(np.ceil(bh)), 1)
            nx = self.sample_ratio if self.sample_ratio > 0 else max(int(np.ceil(bw)), 1)
            for oy, ox in np.ndindex(ph, pw):
                values = []
                for sy, sx in np.ndindex(ny, nx):
                    py, px = y0 + (oy + (sy + 0.5) / ny) * bh, x0 + (ox + (sx + 0.5) / nx) * bw
                    terms = _terms(_image(x, image), float(py), float(px), height, width)
                    values.append(np.max(terms, 0) if self.mode == "max_term" else np.sum(terms, 0))
                out[r, :, oy, ox] = np.mean(values, 0) if self.mode == "avg" else np.max(values, 0)
        return np.ascontiguousarray(out.transpose(0, 2, 3, 1)) if self.layout == "NHWC" else out


def _terms(image: np.ndarray, y: float, x: float, height: int, width: int) -> list[np.ndarray]:
    """The four terms of a bilinear mean."""
    if y < -1 or x < -1 or y > height or x > width:
        return [np.zeros(image.shape[0], image.dtype)]
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    a, b = int(y), int(x)
    c, d = min(a + 1, height - 1), min(b + 1, width - 1)
    ty, tx = y - a, x - b
    return [
        image[:, a, b] * ((1 - ty) * (1 - tx)), image[:, a, d] * ((1 - ty) * tx),
        image[:, c, b] * (ty * (1 - tx)), image[:, c, d] * (ty * tx),
    ]  # fmt: skip


class roi_pool(Region, key="vision.roi_pool"):
    """The maximum in each bin of each region, whose corners are rounded to elements. Empty bins give zero."""

    undifferentiable = "use vision.roi_align with a sample_ratio"
    samples = [(((2, 2, 6, 7), _regions(2, 3, 8)), {"pooled_size": (2, 3), "spatial_scale": 0.8})]

    def infer(self, data: TensorType, rois: TensorType) -> Type:
        need(self.layout == "NCHW", "roi_pool takes data in NCHW", f"it is {self.layout}", 0)
        return super().infer(data, rois)

    def compute(self, data: te.Tensor, rois: te.Tensor) -> te.Tensor:
        return topi.vision.roi_pool_nchw(data, rois, self.pooled_size, self.spatial_scale)

    def ref(self, data: np.ndarray, rois: np.ndarray) -> np.ndarray:
        ph, pw = each(self.pooled_size, 2, "pooled_size")
        _, channels, height, width = data.shape
        out = np.zeros((len(rois), channels, ph, pw), data.dtype)
        for r, (image, *corners) in enumerate(rois):
            scaled = np.asarray(corners, np.float32) * np.float32(self.spatial_scale)
            x0, y0, x1, y1 = [int(v) for v in np.floor(np.abs(scaled) + 0.5) * np.sign(scaled)]
            rows, columns = max(y1 - y0 + 1, 1), max(x1 - x0 + 1, 1)
            for oy, ox in np.ndindex(ph, pw):
                ys = [int(np.floor(oy * rows / ph)) + y0, int(np.ceil((oy + 1) * rows / ph)) + y0]
                xs = [int(np.floor(ox * columns / pw)) + x0, int(np.ceil((ox + 1) * columns / pw)) + x0]
                (a, b), (c, d) = np.clip(ys, 0, height), np.clip(xs, 0, width)
                if b > a and d > c:
                    out[r, :, oy, ox] = _image(data, image)[:, a:b, c:d].max((1, 2))
        return out


class proposal(OpCard, key="vision.proposal"):
    """Proposed regions (batch * rpn_post_nms_top_n, 5): rows (image, x, y, x, y). Arguments: scores (N, 2 * anchors, H, W),
    predicted offsets (N, 4 * anchors, H, W), im_info (N, 3): height, width, scale. If there are too few regions, they are
    repeated."""

    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    feature_stride: int
    threshold: float
    rpn_pre_nms_top_n: int
    rpn_post_nms_top_n: int
    rpn_min_size: int
    iou_loss: bool = False
    undifferentiable = NO_GRADIENT
    fuse = OPAQUE
    tolerance = 1e-3
    samples = [
        (
            (
                lambda rng: rng.permuted(np.linspace(0.01, 0.99, 36)).reshape(1, 4, 3, 3).astype(np.float32),
                lambda rng: (rng.standard_normal((1, 8, 3, 3)) * 0.1).astype(np.float32),
                np.array([[40, 44, 1]], np.float32),
            ),
            {
                "scales": (1.0, 2.0), "ratios": (1.0,), "feature_stride": 16, "threshold": 0.5, "rpn_pre_nms_top_n": 12,
                "rpn_post_nms_top_n": 5, "rpn_min_size": 4,
            },
        )
    ]  # fmt: skip

    def infer(self, cls_prob: TensorType, bbox_pred: TensorType, im_info: TensorType) -> Type:
        p, b = tensor(cls_prob, 0, 4), tensor(bbox_pred, 1, 4)
        tensor(im_info, 2, 2)
        kinds = len(self.scales) * len(self.ratios)
        fits = may_equal(dims(p)[1], 2 * kinds) and may_equal(dims(b)[1], 4 * kinds)
        need(
            fits,
            "there must be two scores and four shifts for each anchor",
            f"there are {dims(p)[1]} and {dims(b)[1]} for {kinds} anchors",
            1,
        )
        return tensor_type((product([dims(p)[0], self.rpn_post_nms_top_n]), 5), b.dtype)

    def compute(self, cls_prob: te.Tensor, bbox_pred: te.Tensor, im_info: te.Tensor) -> te.Tensor:
        return topi.vision.proposal(
            cls_prob, bbox_pred, im_info, self.scales, self.ratios, self.feature_stride, self.threshold,
            self.rpn_pre_nms_top_n, self.rpn_post_nms_top_n, self.rpn_min_size, self.iou_loss,
        )  # fmt: skip

    def ref(self, cls_prob: np.ndarray, bbox_pred: np.ndarray, im_info: np.ndarray) -> np.ndarray:
        from tilewright.topi.vision.boxes import base_anchors

        batch, _, h, w = cls_prob.shape
        anchors = np.array(base_anchors(self.feature_stride, self.scales, self.ratios), np.float32)
        kinds = len(anchors)
        out = np.zeros((batch * self.rpn_post_nms_top_n, 5), bbox_pred.dtype)
        for b in range(batch):
            boxes, scores = [], []
            for y, x, k in np.ndindex(h, w, kinds):
                x0, y0, x1, y1 = anchors[k] + np.array([x, y, x, y], np.float32) * self.feature_stride
                dx, dy, dw, dh = bbox_pred[b, 4 * k : 4 * k + 4, y, x]
                if self.iou_loss:
                    box = np.array([x0 + dx, y0 + dy, x1 + dw, y1 + dh])
                else:
                    width, height = x1 - x0 + 1, y1 - y0 + 1
                    cx, cy = x0 + 0.5 * (width - 1) + dx * width, y0 + 0.5 * (height - 1) + dy * height
                    rw, rh = 0.5 * (np.exp(dw) * width - 1), 0.5 * (np.exp(dh) * height - 1)
                    box = np.array([cx - rw, cy - rh, cx + rw, cy + rh])
                box = np.clip(box, 0, np.array([im_info[b, 1], im_info[b, 0]] * 2) - 1)
                least = im_info[b, 2] * self.rpn_min_size
                small = box[2] - box[0] + 1 < least or box[3] - box[1] + 1 < least
                boxes.append(box)
                scores.append(-1.0 if small else cls_prob[b, kinds + k, y, x])
            order = np.argsort(-np.array(scores), kind="stable")
            order = order[: self.rpn_pre_nms_top_n] if self.rpn_pre_nms_top_n > 0 else order
            last = np.array([0, 0, 1, 1])
            kept: list[int] = []
            for i in order:
                if len(kept) < self.rpn_post_nms_top_n and not any(
                    [np_overlap(boxes[j] + last, boxes[i] + last) > self.threshold for j in kept]
                ):
                    kept.append(int(i))
            for r in range(self.rpn_post_nms_top_n):
                out[b * self.rpn_post_nms_top_n + r] = [b, *boxes[kept[r % len(kept)]]]
        return out
