"""Masks of objects, as detectors of their kind make them: each is resized to its box, whose size only the data know, and pasted into the
picture; and a whole detector with boxes and masks, as its users trace it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontend.torch.test_boxes import run, suppressed_by_class

if not hasattr(torch.ops.torchvision, "roi_align"):
    # As torchvision declares it, where that is not installed: means of bilinear samples in the bins of boxes.
    @torch.library.custom_op("torchvision::roi_align", mutates_args=())
    def roi_align(
        input: Tensor,
        rois: Tensor,
        spatial_scale: float,
        pooled_height: int,
        pooled_width: int,
        sampling_ratio: int,
        aligned: bool,
    ) -> Tensor:
        out = torch.zeros(len(rois), input.shape[1], pooled_height, pooled_width)
        shift = 0.5 if aligned else 0.0
        for k, (image, *box) in enumerate(rois.tolist()):
            x0, y0, x1, y1 = (v * spatial_scale - shift for v in box)
            width, height = (d if aligned else max(d, 1.0) for d in (x1 - x0, y1 - y0))
            for i in range(pooled_height):
                for j in range(pooled_width):
                    samples = [
                        sample(
                            input[int(image)],
                            y0 + (i + (p + 0.5) / sampling_ratio) * height / pooled_height,
                            x0 + (j + (q + 0.5) / sampling_ratio) * width / pooled_width,
                        )
                        for p in range(sampling_ratio)
                        for q in range(sampling_ratio)
                    ]
                    out[k, :, i, j] = torch.stack(samples).mean(0)
        return out


def sample(image: Tensor, y: float, x: float) -> Tensor:
    """A bilinear sample; 0 outside of the image."""
    _, height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = image[:, top, left] * (1 - dx) + image[:, top, right] * dx
    lower = image[:, bottom, left] * (1 - dx) + image[:, bottom, right] * dx
    return upper * (1 - dy) + lower * dy


def pasted(mask: Tensor, box: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """A mask in a picture of zeros, resized to the pixels of its box, of which a part may lie outside."""
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    columns = torch.max(torch.cat((box[2] - box[0] + one, one)))
    rows = torch.max(torch.cat((box[3] - box[1] + one, one)))
    whole = mask.expand((1, 1, mask.size(0), mask.size(1)))
    whole = functional.interpolate(whole, size=(int(rows), int(columns)), mode="bilinear", align_corners=False)[0][0]
    left = torch.max(torch.cat((box[0].unsqueeze(0), zero)))
    right = torch.min(torch.cat((box[2].unsqueeze(0) + one, width.unsqueeze(0))))
    top = torch.max(torch.cat((box[1].unsqueeze(0), zero)))
    bottom = torch.min(torch.cat((box[3].unsqueeze(0) + one, height.unsqueeze(0))))
    seen = whole[(top - box[1]) : (bottom - box[1]), (left - box[0]) : (right - box[0])]
    above, below = torch.zeros(int(top), seen.size(1)), torch.zeros(int(height - bottom), seen.size(1))
    tall = torch.cat((above, seen.to(dtype=torch.float32), below), 0)[0 : int(height), :]
    before, after = torch.zeros(tall.size(0), int(left)), torch.zeros(tall.size(0), int(width - right))
    return torch.cat((before, tall, after), 1)[:, : int(width)]


@torch.jit.script_if_tracing
def all_pasted(masks: Tensor, boxes: Tensor, height: Tensor, width: Tensor) -> Tensor:
    found = torch.zeros(0, int(height), int(width))
    for k in range(masks.size(0)):
        found = torch.cat((found, pasted(masks[k][0], boxes[k], height, width).unsqueeze(0)))
    return found


class Paste(nn.Module):
    """Masks (n, 1, 7, 7) with boxes (n, 4) in a picture of 20 x 24 pixels."""

    def forward(self, masks: Tensor, boxes: Tensor) -> Tensor:
        wide = functional.pad(masks, (1, 1, 1, 1))
        return all_pasted(
            wide,
            boxes.to(dtype=torch.int64),
            torch.scalar_tensor(20, dtype=torch.int64),
            torch.scalar_tensor(24, dtype=torch.int64),
        )


def some(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(count)
    corner = torch.rand(count, 2, generator=generator) * 16 - 3
    boxes = torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * 12], 1)
    return [torch.rand(count, 1, 7, 7, generator=generator), boxes]


def test_masks_pasted_into_a_picture() -> None:
    shapes: list[Any] = [("n", 1, 7, 7), ("n", 4)]
    run(Paste(), some(5), some(1), some(3), some(0), shapes=shapes)


SIZE, CLASSES = 64, 4
"""Rows and columns of the pictures; classes, of which the first is the background."""


def decoded(deltas: Tensor, boxes: Tensor, weights: tuple[float, float, float, float]) -> Tensor:
    """Boxes (n, 4) moved and scaled by (n, 4 * classes) numbers: (n, classes, 4)."""
    size = boxes[:, 2:] - boxes[:, :2]
    middle = boxes[:, :2] + 0.5 * size
    wx, wy, ww, wh = weights
    dx, dy = deltas[:, 0::4] / wx, deltas[:, 1::4] / wy
    dw = torch.clamp(deltas[:, 2::4] / ww, max=math.log(1000 / 16))
    dh = torch.clamp(deltas[:, 3::4] / wh, max=math.log(1000 / 16))
    x = dx * size[:, 0:1] + middle[:, 0:1]
    y = dy * size[:, 1:2] + middle[:, 1:2]
    w, h = torch.exp(dw) * size[:, 0:1] * 0.5, torch.exp(dh) * size[:, 1:2] * 0.5
    return torch.stack((x - w, y - h, x + w, y + h), dim=2)


def clipped(boxes: Tensor) -> Tensor:
    """Boxes within the picture."""
    x, y = boxes[..., 0::2].clamp(min=0, max=SIZE), boxes[..., 1::2].clamp(min=0, max=SIZE)
    return torch.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


class MaskRCNN(nn.Module):
    """A detector in two stages with boxes and masks: a pyramid of two levels; proposals; boxes and classes of what lies in them; masks of
    these, pasted into the picture. Its numbers are small; its structure is that of torchvision's."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU())
        self.inner = nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Conv2d(12, 8, 1)])
        self.outer = nn.ModuleList([nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1)])
        self.look = nn.Conv2d(8, 8, 3, 1, 1)
        self.objectness, self.moves = nn.Conv2d(8, 3, 1), nn.Conv2d(8, 12, 1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 9, 16), nn.ReLU())
        self.scores, self.deltas = nn.Linear(16, CLASSES), nn.Linear(16, 4 * CLASSES)
        self.masks = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(8, 8, 2, 2), nn.ReLU(), nn.Conv2d(8, CLASSES, 1)
        )

    def pyramid(self, images: Tensor) -> list[Tensor]:
        fine = self.first(images)
        coarse = self.second(fine)
        top = self.inner[1](coarse)
        low = self.inner[0](fine)
        low = low + functional.interpolate(top, size=low.shape[-2:], mode="nearest")
        return [self.outer[0](low), self.outer[1](top)]

    def anchors(self, feature: Tensor, size: float) -> Tensor:
        """Three boxes about each place of a level."""
        rows, columns = feature.shape[-2:]
        step = SIZE // rows
        ratios = torch.as_tensor([0.5, 1.0, 2.0])
        h, w = size * torch.sqrt(ratios), size / torch.sqrt(ratios)
        base = (torch.stack([-w, -h, w, h], dim=1) / 2).round()
        y, x = torch.meshgrid(torch.arange(rows) * step, torch.arange(columns) * step, indexing="ij")
        shifts = torch.stack((x.reshape(-1), y.reshape(-1), x.reshape(-1), y.reshape(-1)), dim=1)
        return (shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4)

    def proposals(self, levels: list[Tensor]) -> Tensor:
        boxes, scores, numbers = [], [], []
        for k, level in enumerate(levels):
            seen = functional.relu(self.look(level))
            objectness = self.objectness(seen).permute(0, 2, 3, 1).flatten()
            moves = self.moves(seen).view(1, 3, 4, *level.shape[-2:]).permute(0, 3, 4, 1, 2).reshape(-1, 4)
            moved = decoded(moves, self.anchors(level, 12.0 * (k + 1)), (1.0, 1.0, 1.0, 1.0)).reshape(-1, 4)
            best = objectness.topk(min(40, objectness.shape[0])).indices
            boxes.append(moved[best])
            scores.append(objectness[best])
            numbers.append(torch.full_like(best, k))
        found, likely, level_of = clipped(torch.cat(boxes)), torch.sigmoid(torch.cat(scores)), torch.cat(numbers)
        size = found[:, 2:] - found[:, :2]
        large = torch.where((size[:, 0] >= 1e-3) & (size[:, 1] >= 1e-3))[0]
        found, likely, level_of = found[large], likely[large], level_of[large]
        return found[suppressed_by_class(found, likely, level_of, 0.7)[:20]]

    def pooled(self, levels: list[Tensor], boxes: Tensor, size: int) -> Tensor:
        """What lies in boxes: each from the level of its size."""
        rois = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], dim=1)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        number = torch.clamp(torch.floor(1 + torch.log2(torch.sqrt(area) / 32) + 1e-6), min=0, max=1).to(torch.int64)
        result = torch.zeros((len(rois), 8, size, size))
        for k, level in enumerate(levels):
            here = torch.where(number == k)[0]
            taken = torch.ops.torchvision.roi_align(level, rois[here], level.shape[-1] / SIZE, size, size, 2, False)
            result[here] = taken.to(result.dtype)
        return result

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        levels = self.pyramid(images)
        proposals = self.proposals(levels)
        seen = self.head(self.pooled(levels, proposals, 3))
        scores = functional.softmax(self.scores(seen), -1)
        boxes = clipped(decoded(self.deltas(seen), proposals, (10.0, 10.0, 5.0, 5.0)))
        labels = torch.arange(CLASSES).view(1, -1).expand_as(scores)
        boxes, scores, labels = boxes[:, 1:].reshape(-1, 4), scores[:, 1:].reshape(-1), labels[:, 1:].reshape(-1)
        good = torch.where(scores > 0.27)[0]
        boxes, scores, labels = boxes[good], scores[good], labels[good]
        kept = suppressed_by_class(boxes, scores, labels, 0.5)[:6]
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        logits = self.masks(self.pooled(levels, boxes, 4)).sigmoid()
        masks = logits[torch.arange(labels.shape[0]), labels][:, None]
        scale = (masks.shape[-1] + 2) / masks.shape[-1]
        middle, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2 * scale
        wide = torch.cat([middle - half, middle + half], 1).to(dtype=torch.int64)
        full = [torch.scalar_tensor(SIZE, dtype=torch.int64) for _ in range(2)]
        return boxes, labels, scores, all_pasted(functional.pad(masks, (1, 1, 1, 1)), wide, *full)[:, None]


def test_a_detector_with_masks() -> None:
    torch.manual_seed(0)
    model = MaskRCNN().eval()
    with torch.no_grad():
        # Random weights tell little apart.
        model.scores.weight.mul_(60)
        model.deltas.weight.mul_(6)
        cases = [[torch.rand(1, 3, SIZE, SIZE) * scale] for scale in (8.0, 2.0, 12.0, 0.0)]
        counts = [len(model(*case)[0]) for case in cases]
        assert len(set(counts)) > 1 and max(counts) > 2, counts
        run(model, *cases)
