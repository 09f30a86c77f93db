"""Networks as the convolutions that an accelerator runs; a dense layer is one of 1 x 1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tilewright.vta.configuration import Configuration
from tilewright.vta.search.problem import Problem, square


class Layer(NamedTuple):
    """A convolution with even padding, and how often a network has it. columns: those of the data, 0 for a square; a dense layer of so many
    rows has 1. depthwise: whether each channel has a filter of its own."""

    size: int
    channels: int
    filters: int
    kernel: int = 1
    stride: int = 1
    times: int = 1
    columns: int = 0
    depthwise: int = 0

    @property
    def result(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        rows, columns = [
            (n + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1
            for n in (self.size, self.columns or self.size)
        ]
        return rows, columns

    @property
    def products(self) -> int:
        """Multiplications of one."""
        rows, columns = self.result
        return rows * columns * self.kernel**2 * self.filters * (1 if self.depthwise else self.channels)

    def problem(self, config: Configuration) -> Problem:
        """The layer in elements of an accelerator; channels are padded to whole blocks."""
        outs = -(-self.filters // config.block_out)
        ins = 1 if self.depthwise else -(-self.channels // config.block_in)
        made = square(self.size, ins, outs, self.kernel, self.stride, passes=(2, 1, 1), copied=(False,))
        rows, columns = self.result
        return made._replace(
            rows=rows, columns=columns, size=(self.size, self.columns or self.size), per_group=self.depthwise
        )


def _basic(counts: tuple[int, int, int, int]) -> tuple[Layer, ...]:
    """ResNet with blocks of two convolutions, without its first one, whose three channels are less than a block."""
    found = [Layer(56, 64, 64, 3, 1, 2 * counts[0])]
    for n, (size, channels) in enumerate(((56, 64), (28, 128), (14, 256)), 1):
        wide = 2 * channels
        found += [
            Layer(size, channels, wide, 3, 2),
            Layer(size, channels, wide, 1, 2),
            Layer(size // 2, wide, wide, 3, 1, 2 * counts[n] - 1),
        ]
    return tuple(found)


def _bottleneck(counts: tuple[int, int, int, int]) -> tuple[Layer, ...]:
    """ResNet with blocks of three convolutions, whose stride is in the second one."""
    found, before, size = [], 64, 56
    for n, count in enumerate(counts):
        narrow, wide, stride = 64 << n, 256 << n, 2 if n else 1
        out = size // stride
        found += [
            Layer(size, before, narrow), Layer(size, narrow, narrow, 3, stride), Layer(out, narrow, wide, times=count),
            Layer(size, before, wide, 1, stride), Layer(out, wide, narrow, times=count - 1), Layer(out, narrow, narrow, 3, 1, count - 1),
        ]  # fmt: skip
        before, size = wide, out
    return tuple(found)


def _mobile_v1() -> tuple[Layer, ...]:
    """MobileNetV1: a depthwise convolution before each of 1 x 1."""
    found, size, before = [], 112, 32
    for channels, stride in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
    ):  # fmt: skip
        found.append(Layer(size, before, before, 3, stride, depthwise=1))
        size //= stride
        found.append(Layer(size, before, channels))
        before = channels
    return _counted([*found, _dense(1, 1024, 1000)])


def _mobile_v2() -> tuple[Layer, ...]:
    """MobileNetV2: wider channels between two convolutions of 1 x 1."""
    found, size, before = [], 112, 32
    for expand, channels, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for stride in (first, *[1] * (count - 1)):
            wide = before * expand
            if expand > 1:
                found.append(Layer(size, before, wide))
            found.append(Layer(size, wide, wide, 3, stride, depthwise=1))
            size, before = size // stride, channels
            found.append(Layer(size, wide, channels))
    return _counted([*found, Layer(size, before, 1280), _dense(1, 1280, 1000)])


def _squeeze() -> tuple[Layer, ...]:
    """SqueezeNet 1.1: few channels, then as many again of 1 x 1 and of 3 x 3."""
    found, before = [], 64
    for size, narrow, wide in (
        (56, 16, 64), (56, 16, 64), (28, 32, 128), (28, 32, 128), (14, 48, 192), (14, 48, 192), (14, 64, 256), (14, 64, 256),
    ):  # fmt: skip
        found += [Layer(size, before, narrow), Layer(size, narrow, wide), Layer(size, narrow, wide, 3)]
        before = 2 * wide
    return _counted([*found, Layer(14, before, 1000)])


def _inception() -> tuple[Layer, ...]:
    """Inception-v1: in each module four branches, whose results are behind each other."""
    found, before = [Layer(56, 64, 64), Layer(56, 64, 192, 3)], 192
    for size, a, b, c, d in (
        (28, 64, (96, 128), (16, 32), 32), (28, 128, (128, 192), (32, 96), 64), (14, 192, (96, 208), (16, 48), 64),
        (14, 160, (112, 224), (24, 64), 64), (14, 128, (128, 256), (24, 64), 64), (14, 112, (144, 288), (32, 64), 64),
        (14, 256, (160, 320), (32, 128), 128), (7, 256, (160, 320), (32, 128), 128), (7, 384, (192, 384), (48, 128), 128),
    ):  # fmt: skip
        found += [Layer(size, before, a), Layer(size, before, b[0]), Layer(size, *b, 3), Layer(size, before, c[0])]
        found += [Layer(size, *c, 5), Layer(size, before, d)]
        before = a + b[1] + c[1] + d
    return _counted([*found, _dense(1, before, 1000)])


def _transformer(tokens: int, hidden: int, inner: int, blocks: int) -> tuple[Layer, ...]:
    """The products of a transformer with constant weights."""
    wide, narrow = _dense(tokens, hidden, inner, blocks), _dense(tokens, inner, hidden, blocks)
    return _dense(tokens, hidden, hidden, 4 * blocks), wide, narrow


def _dense(rows: int, inputs: int, outputs: int, times: int = 1) -> Layer:
    return Layer(rows, inputs, outputs, times=times, columns=1)


def _counted(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Equal layers as one that is there as often."""
    return tuple([layer._replace(times=count) for layer, count in Counter(layers).items()])


NETWORKS: dict[str, tuple[Layer, ...]] = {
    "resnet18": _basic((2, 2, 2, 2)),
    "resnet34": _basic((3, 4, 6, 3)),
    "resnet50": _bottleneck((3, 4, 6, 3)),
    "vgg16": (
        Layer(224, 64, 64, 3), Layer(112, 64, 128, 3), Layer(112, 128, 128, 3), Layer(56, 128, 256, 3), Layer(56, 256, 256, 3, 1, 2),
        Layer(28, 256, 512, 3), Layer(28, 512, 512, 3, 1, 2), Layer(14, 512, 512, 3, 1, 3),
    ),
    "mobilenet_v1": _mobile_v1(),
    "mobilenet_v2": _mobile_v2(),
    "squeezenet": _squeeze(),
    "inception_v1": _inception(),
    "detector": (
        Layer(208, 16, 32, 3), Layer(104, 32, 64, 3), Layer(52, 64, 128, 3), Layer(26, 128, 256, 3), Layer(13, 256, 512, 3, 1, 2),
        Layer(13, 512, 256), Layer(13, 512, 24), Layer(13, 256, 128), Layer(26, 384, 256, 3), Layer(26, 256, 24),
    ),
    "vit_tiny": _transformer(197, 192, 768, 12),
    "bert_mini": _transformer(128, 256, 1024, 4),
}  # fmt: skip
"""All but their first convolutions, by the name of the network: pictures of 224 x 224, for the detector (of the kind of YOLO-tiny) of
416 x 416; sequences of 197 and 128."""


def read_layers(path: Path) -> tuple[Layer, ...]:
    """The layers in a JSON file: a list of objects with `size`, `channels`, `filters`, and maybe `kernel`, `stride`, `times`. ValueError
    for what is none: which entry, and why."""
    try:
        entries = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise ValueError(
            f'{path} must hold a list of layers, such as [{{"size": 56, "channels": 64, "filters": 64, "kernel": 3}}]'
        )
    found = []
    for n, entry in enumerate(entries):
        unknown = sorted(set(entry) - set(Layer._fields)) if isinstance(entry, dict) else []
        missing = [f for f in ("size", "channels", "filters") if not isinstance(entry, dict) or f not in entry]
        wrong = (
            []
            if missing or unknown
            else [k for k, v in entry.items() if not isinstance(v, int) or isinstance(v, bool) or v < 1]
        )
        if missing or unknown or wrong:
            what = (
                f"lacks {missing[0]}"
                if missing
                else f"has {unknown[0]}"
                if unknown
                else f"has {wrong[0]} = {entry[wrong[0]]!r}"
            )
            raise ValueError(f"{path}: layer {n} {what}; a layer has positive integers {', '.join(Layer._fields)}")
        found.append(Layer(**entry))
    return tuple(found)


__all__ = ["NETWORKS", "Layer", "read_layers"]
