"""Compute-bound operators that the models do not contain, beside ONNX Runtime and torch: each alone, at one and two threads.

python -m benchmarks operators [--threads 1,2] [--cases conv1d,attention] [--prepare]

Convolutions over one and three axes, by large kernels, in groups and transposed; attention; products of two computed matrices.
They are measured as those of memory_bound are, by the same options.
"""

from __future__ import annotations

from math import prod

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.single_operators.memory_bound import Case, compare, node, random

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def scaled(*shape: int) -> np.ndarray:
    """Weights whose sums over all axes but the first are about as large as the data."""
    return random(*shape) * np.float32(prod(shape[1:]) ** -0.5)


def conv(
    data: tuple[int, ...], filters: int, kernel: tuple[int, ...], stride: int = 1, pad: int | tuple[int, ...] = 0,
    dilation: int = 1, groups: int = 1,
) -> Case:  # fmt: skip
    n = len(kernel)
    pads = (pad,) * n if isinstance(pad, int) else pad
    weight, bias = scaled(filters, data[1] // groups, *kernel), random(filters)
    w, b = torch.from_numpy(weight), torch.from_numpy(bias)
    attributes = {"strides": [stride] * n, "pads": [*pads, *pads], "dilations": [dilation] * n, "group": groups}
    return Case(
        [node("Conv", "x0 w b", kernel_shape=kernel, **attributes)],
        [data],
        lambda x: CONVOLUTIONS[n](x, w, b, stride, pads, dilation, groups),
        {"w": weight, "b": bias},
    )


def transposed(data: tuple[int, ...], filters: int, kernel: int, stride: int, pad: int = 0) -> Case:
    n = len(data) - 2
    weight = scaled(data[1], filters, *[kernel] * n)
    w = torch.from_numpy(weight)
    return Case(
        [node("ConvTranspose", "x0 w", kernel_shape=[kernel] * n, strides=[stride] * n, pads=[pad] * 2 * n)],
        [data],
        lambda x: TRANSPOSED[n](x, w, None, stride, pad),
        {"w": weight},
    )


def attention(heads: int, queries: int, keys: int, width: int) -> Case:
    nodes = [
        node("Transpose", "x1", "t", perm=[0, 1, 3, 2]), node("MatMul", "x0 t", "s"), node("Mul", "s c", "m"),
        node("Softmax", "m", "p", axis=-1), node("MatMul", "p x2"),
    ]  # fmt: skip
    shapes = [(1, heads, rows, width) for rows in (queries, keys, keys)]
    return Case(nodes, shapes, F.scaled_dot_product_attention, {"c": np.array(width**-0.5, np.float32)})


def product(*shapes: tuple[int, ...]) -> Case:
    return Case([node("MatMul", "x0 x1")], shapes, torch.matmul)


def cases() -> dict[str, Case]:
    return {
        "conv1d 80x3000 to 384 k3": conv((1, 80, 3000), 384, (3,), 1, 1),
        "conv1d 384x3000 k3 s2": conv((1, 384, 3000), 384, (3,), 2, 1),
        "conv1d 512x1000 k10 s5": conv((1, 512, 1000), 512, (10,), 5),
        "conv1d 1x16000 to 512 k10 s5": conv((1, 1, 16000), 512, (10,), 5),
        "conv1d depthwise 256x500 k31": conv((1, 256, 500), 256, (31,), 1, 15, 1, 256),
        "conv1d 64x4000 k3 dilation 8": conv((1, 64, 4000), 64, (3,), 1, 8, 8),
        "conv1d 768x50 k128 in 16 groups": conv((1, 768, 50), 768, (128,), 1, 64, 1, 16),
        "conv3d 3x8x112x112 k3x7x7 s2": conv((1, 3, 8, 112, 112), 64, (3, 7, 7), 2, (1, 3, 3)),
        "conv3d 64x8x28x28 k3": conv((1, 64, 8, 28, 28), 64, (3, 3, 3), 1, 1),
        "conv3d 64x8x28x28 k1": conv((1, 64, 8, 28, 28), 128, (1, 1, 1)),
        "conv3d depthwise 64x8x28x28 k3": conv((1, 64, 8, 28, 28), 64, (3, 3, 3), 1, 1, 1, 64),
        "conv3d 128x8x28x28 k3 s2": conv((1, 128, 8, 28, 28), 128, (3, 3, 3), 2, 1),
        "conv2d 3x224x224 k7 s2": conv((1, 3, 224, 224), 64, (7, 7), 2, 3),
        "conv2d 3x224x224 k16 s16": conv((1, 3, 224, 224), 768, (16, 16), 16),
        "conv2d depthwise 96x56x56 k13": conv((1, 96, 56, 56), 96, (13, 13), 1, 6, 1, 96),
        "conv2d depthwise 96x32x32 k31": conv((1, 96, 32, 32), 96, (31, 31), 1, 15, 1, 96),
        "conv2d 32x64x64 k9": conv((1, 32, 64, 64), 32, (9, 9), 1, 4),
        "conv2d 256x28x28 k3 in 32 groups": conv((1, 256, 28, 28), 256, (3, 3), 1, 1, 1, 32),
        "conv2d 256x28x28 k3 dilation 2": conv((1, 256, 28, 28), 256, (3, 3), 1, 2, 2),
        "transposed 64x32x32 k4 s2": transposed((1, 64, 32, 32), 32, 4, 2, 1),
        "transposed 256x16x16 k2 s2": transposed((1, 256, 16, 16), 128, 2, 2),
        "transposed 1d 256x100 k16 s8": transposed((1, 256, 100), 128, 16, 8, 4),
        "transposed 3d 32x8x16x16 k2 s2": transposed((1, 32, 8, 16, 16), 16, 2, 2),
        "attention 12x128x64": attention(12, 128, 128, 64),
        "attention 8x1024x64": attention(8, 1024, 1024, 64),
        "attention 8x4096 to 77x40": attention(8, 4096, 77, 40),
        "attention 12x1 to 2048x64": attention(12, 1, 2048, 64),
        "attention 16x577x80": attention(16, 577, 577, 80),
        "product 12x128x64x128": product((12, 128, 64), (12, 64, 128)),
        "product 512x512x512": product((512, 512), (512, 512)),
        "product 1x4096x4096": product((1, 4096), (4096, 4096)),
        "product 333x777x555 odd": product((333, 777), (777, 555)),
    }


def main(argv: list[str] | None = None) -> int:
    return compare(argv, "operators", __doc__, cases())
