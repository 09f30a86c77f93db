"""Networks written out as in their papers (and as timm has them): convolutional classifiers, mixers, detectors, segmentation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.frontend.torch.models import model, normal


def _images(size: int = 32) -> dict[str, Tensor]:
    return {"x": normal(2, 3, size, size)}


class ConvNormAct(nn.Sequential):
    def __init__(self, i: int, o: int, k: int = 3, s: int = 1, g: int = 1, act: Any = nn.ReLU) -> None:
        super().__init__(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), act())


@model("vgg")
def _vgg() -> Any:
    """Simonyan and Zisserman, 2014."""

    class VGG(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers: list[nn.Module] = []
            for i, o in ((3, 8), (8, 16)):
                layers += [nn.Conv2d(i, o, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            self.features = nn.Sequential(*layers)
            self.head = nn.Sequential(nn.Linear(16 * 64, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 7))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.flatten(self.features(x), 1))

    return VGG(), _images()


@model("inception")
def _inception() -> Any:
    """Szegedy and others, 2014: parallel ways joined."""

    class Inception(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = ConvNormAct(3, 8, 3, 2)
            self.a = ConvNormAct(8, 4, 1)
            self.b = nn.Sequential(ConvNormAct(8, 4, 1), ConvNormAct(4, 8))
            self.c = nn.Sequential(ConvNormAct(8, 4, 1), ConvNormAct(4, 4, 5))
            self.d = nn.Sequential(nn.MaxPool2d(3, 1, 1), ConvNormAct(8, 4, 1))
            self.head = nn.Linear(20, 7)

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x)
            x = F.max_pool2d(torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1), 3, 2, ceil_mode=True)
            return self.head(x.mean((2, 3)))

    return Inception(), _images()


@model("densenet")
def _densenet() -> Any:
    """Huang and others, 2016."""

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3, 2, 1)
            self.layers = nn.ModuleList(
                [
                    nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, padding=1))
                    for k in range(3)
                ]
            )
            self.cut = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2))
            self.head = nn.Linear(10, 7)

        def forward(self, x: Tensor) -> Tensor:
            found = [self.stem(x)]
            for layer in self.layers:
                found.append(layer(torch.cat(found, 1)))
            return self.head(F.adaptive_avg_pool2d(self.cut(torch.cat(found, 1)), 1).flatten(1))

    return Dense(), _images()


@model("squeezenet")
def _squeezenet() -> Any:
    """Iandola and others, 2016."""

    class Fire(nn.Module):
        def __init__(self, i: int, s: int, e: int) -> None:
            super().__init__()
            self.squeeze, self.one, self.three = nn.Conv2d(i, s, 1), nn.Conv2d(s, e, 1), nn.Conv2d(s, e, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(self.squeeze(x))
            return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)

    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(8, 4, 8),
        Fire(16, 4, 8),
        nn.Conv2d(16, 7, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return net, {"input": normal(2, 3, 32, 32)}


@model("shufflenet-v2")
def _shufflenet() -> Any:
    """Ma and others, 2018: channels split and shuffled."""

    class Unit(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            h = c // 2
            self.way = nn.Sequential(
                ConvNormAct(h, h, 1), ConvNormAct(h, h, 3, 1, h, nn.Identity), ConvNormAct(h, h, 1)
            )

        def forward(self, x: Tensor) -> Tensor:
            a, b = x.chunk(2, 1)
            x = torch.cat([a, self.way(b)], 1)
            n, c, h, w = x.shape
            return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(ConvNormAct(3, 8, 3, 2), Unit(8), Unit(8))
            self.head = nn.Linear(8, 7)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x).mean([2, 3]))

    return Net(), _images()


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


@model("mobilenet-v3", fast=True)
def _mobilenet_v3() -> Any:
    """Howard and others, 2019: inverted residuals, squeeze and excite, hard swish."""

    class Block(nn.Module):
        def __init__(self, c: int, e: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                ConvNormAct(c, e, 1, act=nn.Hardswish),
                ConvNormAct(e, e, 5, 1, e, nn.Hardswish),
                SqueezeExcite(e),
                ConvNormAct(e, c, 1, act=nn.Identity),
            )

        def forward(self, x: Tensor) -> Tensor:
            return x + self.way(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(ConvNormAct(3, 8, 3, 2, act=nn.Hardswish), Block(8, 16), Block(8, 24))
            self.head = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 7))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x).mean([2, 3]))

    return Net(), _images()


@model("resnext-se")
def _resnext() -> Any:
    """Xie and others, 2017, with the gates of Hu and others, 2018."""

    class Block(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                ConvNormAct(c, c, 1),
                ConvNormAct(c, c, 3, 1, 4),
                ConvNormAct(c, c, 1, act=nn.Identity),
                SqueezeExcite(c),
            )

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x + self.way(x))

    return nn.Sequential(
        ConvNormAct(3, 16, 7, 2),
        nn.MaxPool2d(3, 2, 1),
        Block(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 7),
    ), {"input": normal(2, 3, 32, 32)}


@model("mlp-mixer")
def _mixer() -> Any:
    """Tolstikhin and others, 2021."""

    class Mixer(nn.Module):
        def __init__(self, tokens: int, c: int) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
            self.mix = nn.Sequential(nn.Linear(tokens, 24), nn.GELU(), nn.Linear(24, tokens))
            self.mlp = nn.Sequential(nn.Linear(c, 48), nn.GELU(approximate="tanh"), nn.Linear(48, c))

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.mix(self.n1(x).mT).mT
            return x + self.mlp(self.n2(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 32, 8, 8)
            self.body = nn.Sequential(Mixer(16, 32), Mixer(16, 32))
            self.head = nn.Linear(32, 7)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(self.patch(x).flatten(2).transpose(1, 2)).mean(1))

    return Net(), _images()


@model("ghostnet")
def _ghostnet() -> Any:
    """Han and others, 2020: half of the channels from cheap operations."""

    class Ghost(nn.Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.first, self.cheap, self.o = ConvNormAct(i, o // 2, 1), ConvNormAct(o // 2, o // 2, 3, 1, o // 2), o

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return torch.cat([x, self.cheap(x)], 1)[:, : self.o]

    return nn.Sequential(
        ConvNormAct(3, 8, 3, 2), Ghost(8, 16), Ghost(16, 12), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 7)
    ), {"input": normal(2, 3, 32, 32)}


@model("unet")
def _unet() -> Any:
    """Ronneberger and others, 2015."""

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = ConvNormAct(3, 8), ConvNormAct(8, 16), ConvNormAct(16, 32)
            self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
            self.d2, self.d1, self.head = ConvNormAct(32, 16), ConvNormAct(16, 8), nn.Conv2d(8, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            a = self.a(x)
            b = self.b(F.max_pool2d(a, 2))
            c = self.c(F.max_pool2d(b, 2))
            d = self.d2(torch.cat([self.up2(c), b], 1))
            return self.head(self.d1(torch.cat([self.up1(d), a], 1)))

    return UNet(), _images()


@model("deeplab-v3")
def _deeplab() -> Any:
    """Chen and others, 2017: dilated convolutions side by side, with the mean of the image."""

    class ASPP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = ConvNormAct(3, 16, 3, 2)
            self.ways = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=d, dilation=d) for d in (1, 2, 4)])
            self.pool, self.head = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 5, 1)

        def forward(self, x: Tensor) -> Tensor:
            size = x.shape[-2:]
            x = self.stem(x)
            mean = F.interpolate(self.pool(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="bilinear")
            x = self.head(torch.cat([*[w(x) for w in self.ways], mean], 1))
            return F.interpolate(x, size=size, mode="bilinear", align_corners=False)

    return ASPP(), _images()


@model("fpn-retinanet")
def _retinanet() -> Any:
    """Lin and others, 2017: a pyramid of features, one head for all levels."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(ConvNormAct(3, 8, 3, 2), ConvNormAct(8, 16, 3, 2)), ConvNormAct(16, 32, 3, 2)
            self.la, self.lb = nn.Conv2d(16, 16, 1), nn.Conv2d(32, 16, 1)
            self.scores, self.boxes = nn.Conv2d(16, 3 * 5, 3, padding=1), nn.Conv2d(16, 3 * 4, 3, padding=1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            a = self.a(x)
            b = self.lb(self.b(a))
            levels = [self.la(a) + F.interpolate(b, scale_factor=2.0, mode="nearest"), b]
            n = x.shape[0]
            scores = [self.scores(p).permute(0, 2, 3, 1).reshape(n, -1, 5) for p in levels]
            boxes = [self.boxes(p).permute(0, 2, 3, 1).reshape(n, -1, 4) for p in levels]
            return torch.cat(scores, 1).sigmoid(), torch.cat(boxes, 1)

    return Net(), _images()


@model("yolo")
def _yolo() -> Any:
    """Redmon and Farhadi, 2018: a head whose boxes are reckoned on the grid."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            act = nn.SiLU
            self.body = nn.Sequential(
                ConvNormAct(3, 8, 3, 2, act=act), ConvNormAct(8, 16, 3, 2, act=act), ConvNormAct(16, 16, act=act)
            )
            self.head = nn.Conv2d(16, 3 * 7, 1)
            self.register_buffer("anchors", torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]).view(1, 3, 1, 1, 2))

        def forward(self, x: Tensor) -> Tensor:
            y = self.head(self.body(x))
            n, _, h, w = y.shape
            y = y.view(n, 3, 7, h, w).permute(0, 1, 3, 4, 2)
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2).float()
            xy = (y[..., 0:2].sigmoid() * 2 - 0.5 + grid) * 4
            wh = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors
            return torch.cat((xy, wh, y[..., 4:].sigmoid()), -1).view(n, -1, 7)

    return Net(), _images()


@model("pointnet")
def _pointnet() -> Any:
    """Qi and others, 2017: points, each alone, then their largest."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
            self.head = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))

        def forward(self, x: Tensor) -> Tensor:
            return F.log_softmax(self.head(torch.max(self.each(x), 2)[0]), dim=1)

    return Net(), {"x": normal(2, 3, 20)}, {"x": {0: "batch", 2: "points"}}


@model("crnn")
def _crnn() -> Any:
    """Shi and others, 2015: a convolutional network read by a bidirectional LSTM."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cnn = nn.Sequential(ConvNormAct(1, 8), nn.MaxPool2d(2), ConvNormAct(8, 16), nn.MaxPool2d((8, 2)))
            self.rnn = nn.LSTM(16, 12, 2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(24, 11)

        def forward(self, x: Tensor) -> Tensor:
            x = self.cnn(x).squeeze(2).transpose(1, 2)
            return self.head(self.rnn(x)[0]).log_softmax(-1)

    return Net(), {"x": normal(2, 1, 16, 24)}, {"x": {0: "batch", 3: "width"}}


@model("gru-attention")
def _gru() -> Any:
    """Bahdanau and others, 2014: attention over the states of a GRU."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.rnn = nn.Embedding(30, 8), nn.GRU(8, 12, batch_first=True)
            self.score, self.head = nn.Linear(12, 1), nn.Linear(12, 4)

        def forward(self, x: Tensor) -> Tensor:
            states, last = self.rnn(self.table(x))
            share = self.score(torch.tanh(states + last[-1].unsqueeze(1))).softmax(1)
            return self.head((share * states).sum(1))

    return Net(), {"x": torch.arange(14).reshape(2, 7)}, {"x": {0: "batch", 1: "length"}}


@model("tcn")
def _tcn() -> Any:
    """Bai and others, 2018: dilated causal convolutions with weight normalisation."""
    from torch.nn.utils.parametrizations import weight_norm

    class Block(nn.Module):
        def __init__(self, i: int, o: int, d: int) -> None:
            super().__init__()
            self.conv, self.d, self.skip = weight_norm(nn.Conv1d(i, o, 3, dilation=d)), d, nn.Conv1d(i, o, 1)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.conv(F.pad(x, (2 * self.d, 0))) + self.skip(x))

    return (
        nn.Sequential(Block(4, 8, 1), Block(8, 8, 2), Block(8, 8, 4)),
        {"input": normal(2, 4, 20)},
        {"input": {0: "batch", 2: "length"}},
    )


@model("nn-transformer")
def _transformer() -> Any:
    """torch.nn.Transformer (Vaswani and others, 2017)."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Transformer(16, 4, 1, 1, 32, dropout=0.0, batch_first=True)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.inner(source, target, tgt_mask=mask, tgt_is_causal=True)

    return Net(), {"source": normal(2, 6, 16), "target": normal(2, 4, 16)}
