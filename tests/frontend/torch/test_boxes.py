"""What detectors do: suppression of boxes, regions of interest, and decisions by numbers of boxes that only the data know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tilewright as tvm
from tilewright import relay


def _overlap(a: Tensor, b: Tensor) -> float:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    common = float((high - low).clamp(min=0).prod())
    return common / (float((a[2:] - a[:2]).prod()) + float((b[2:] - b[:2]).prod()) - common)


if not hasattr(torch.ops.torchvision, "nms"):
    # As torchvision declares it, where that is not installed.
    @torch.library.custom_op("torchvision::nms", mutates_args=())
    def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        kept: list[int] = []
        for k in torch.argsort(scores, descending=True, stable=True).tolist():
            if all([_overlap(dets[k], dets[j]) <= iou_threshold for j in kept]):
                kept.append(k)
        return torch.tensor(kept, dtype=torch.int64)


@torch.jit.script_if_tracing
def suppressed_by_class(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    offsets = classes.to(boxes) * (boxes.max() + torch.tensor(1).to(boxes))
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, threshold)


class Detector(nn.Module):
    """The best boxes whose scores are above a threshold, of each class."""

    def forward(self, boxes: Tensor, scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        good = torch.where(scores > 0.3)[0]
        boxes, scores, classes = boxes[good], scores[good], classes[good]
        kept = suppressed_by_class(boxes, scores, classes, 0.5)[:5]
        return boxes[kept], scores[kept], classes[kept]


def inputs(count: int, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(count)
    corner = torch.rand(count, 2, generator=generator) * 10
    boxes = torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * 8 + 1], 1)
    return [boxes, torch.rand(count, generator=generator) * scale, torch.randint(0, 3, (count,), generator=generator)]


def run(module: nn.Module, example: list[Tensor], *cases: list[Tensor], shapes: Any = None) -> None:
    """The traced module in the virtual machine beside PyTorch."""
    traced = torch.jit.trace(module, tuple(example), check_trace=False)
    infos = [(f"x{k}", (tuple(x.shape) if shapes is None else shapes[k], str(x.dtype))) for k, x in enumerate(example)]
    mod, params = relay.frontend.from_pytorch(traced, infos)
    machine = relay.create_executor("vm", mod, tvm.cpu(), "llvm", params).evaluate()
    for given in (example, *cases):
        wanted = module(*given)
        found = machine(*[x.numpy() for x in given])
        for mine, theirs in zip(
            [found] if isinstance(wanted, Tensor) else found,
            [wanted] if isinstance(wanted, Tensor) else wanted,
            strict=True,
        ):
            assert mine.numpy().dtype == theirs.numpy().dtype
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


def test_suppression() -> None:
    class Suppress(nn.Module):
        def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
            kept = torch.ops.torchvision.nms(boxes, scores, 0.4)
            return kept, boxes[kept]

    run(Suppress(), inputs(30)[:2], inputs(12)[:2], inputs(1)[:2], shapes=[("n", 4), ("n",)])


def test_a_detector_of_a_data_dependent_number_of_boxes() -> None:
    """Also of none."""
    run(Detector(), inputs(30), [inputs(30)[0], inputs(30, 0.2)[1], inputs(30)[2]])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_of_sizes(name: str) -> None:
    body = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[name]
    scripted = torch.jit.CompilationUnit(f"""
def f(x):
    if x.size(0) {body} 2:
        y = x * 2.0
    else:
        y = x - 1.0
    return y
""").f
    mod, params = relay.frontend.from_pytorch(scripted, [("x", ("n", 3))])
    machine = relay.create_executor("vm", mod, tvm.cpu(), "llvm", params).evaluate()
    for n in (1, 2, 3):
        x = torch.ones(n, 3)
        np.testing.assert_array_equal(machine(x.numpy()).numpy(), scripted(x).numpy())


class Sizes(nn.Module):
    """Arithmetic on sizes, which a trace does on tensors."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        height, width = x.shape[-2:]
        scale = torch.stack([torch.as_tensor(height, dtype=torch.float32), torch.as_tensor(width).to(torch.float32)])
        larger = nn.functional.interpolate(
            x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True, align_corners=False
        )
        parts = x.view(x.shape[0], 3, x.shape[1] // 3, height, width)
        return scale, larger, parts, x * torch.add(torch.as_tensor(height), torch.as_tensor(width), alpha=2)


def test_arithmetic_on_sizes() -> None:
    run(Sizes(), [torch.randn(2, 6, 4, 5)])
