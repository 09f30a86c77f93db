"""Diffusion models written out: the denoising UNet, the autoencoder, a diffusion transformer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.frontend.torch.models import model, normal


def timestep_embedding(t: Tensor, dim: int) -> Tensor:
    """Sines and cosines of the step (Ho and others, 2020)."""
    rates = torch.exp(-math.log(10000.0) * torch.arange(dim // 2, dtype=torch.float32) / (dim // 2))
    angles = t[:, None].float() * rates[None]
    return torch.cat([angles.cos(), angles.sin()], -1)


class ResBlock(nn.Module):
    """Two convolutions with group normalisation; the step's embedding in between."""

    def __init__(self, i: int, o: int, time: int | None) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.time = nn.Linear(time, o) if time else None
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x: Tensor, t: Tensor | None = None) -> Tensor:
        h = self.c1(F.silu(self.n1(x)))
        if self.time is not None and t is not None:
            h = h + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class CrossAttention(nn.Module):
    """Attention of an image's places to themselves, or to a text's tokens."""

    def __init__(self, c: int, context: int, heads: int = 2) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (
            nn.Linear(c, c, bias=False),
            nn.Linear(context, c, bias=False),
            nn.Linear(context, c, bias=False),
            nn.Linear(c, c),
        )
        self.heads = heads

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (self.q(x), self.k(context), self.v(context))
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class SpatialTransformer(nn.Module):
    """Rombach and others, 2022: self-attention, attention to the text, a gated feed-forward layer."""

    def __init__(self, c: int, context: int) -> None:
        super().__init__()
        self.norm, self.enter, self.leave = nn.GroupNorm(4, c), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.n1, self.n2, self.n3 = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.own, self.cross = CrossAttention(c, c), CrossAttention(c, context)
        self.gate, self.down = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = self.enter(self.norm(x)).permute(0, 2, 3, 1).reshape(n, h * w, c)
        y = y + self.own(self.n1(y))
        y = y + self.cross(self.n2(y), context)
        value, gate = self.gate(self.n3(y)).chunk(2, -1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.leave(y.reshape(n, h, w, c).permute(0, 3, 1, 2))


@model("diffusion-unet")
def _unet() -> Any:
    """The conditioned UNet of latent diffusion."""

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
            self.enter = nn.Conv2d(4, 16, 3, padding=1)
            self.r1, self.t1, self.down = ResBlock(16, 16, 32), SpatialTransformer(16, 12), nn.Conv2d(16, 16, 3, 2, 1)
            self.r2, self.t2, self.m = ResBlock(16, 32, 32), SpatialTransformer(32, 12), ResBlock(32, 32, 32)
            self.up, self.r3, self.t3 = (
                nn.Conv2d(32, 32, 3, padding=1),
                ResBlock(48, 16, 32),
                SpatialTransformer(16, 12),
            )
            self.norm, self.leave = nn.GroupNorm(4, 16), nn.Conv2d(16, 4, 3, padding=1)

        def forward(self, sample: Tensor, step: Tensor, text: Tensor) -> Tensor:
            t = self.time(timestep_embedding(step, 16))
            a = self.t1(self.r1(self.enter(sample), t), text)
            b = self.m(self.t2(self.r2(self.down(a), t), text), t)
            c = self.up(F.interpolate(b, scale_factor=2.0, mode="nearest"))
            return self.leave(F.silu(self.norm(self.t3(self.r3(torch.cat([c, a], 1), t), text))))

    return (
        UNet(),
        {"sample": normal(2, 4, 8, 8), "step": torch.tensor([3, 500]), "text": normal(2, 5, 12)},
        {"text": {0: "batch", 1: "length"}},
    )


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.r1 = nn.Conv2d(4, 16, 3, padding=1), ResBlock(16, 16, None)
        self.norm, self.attend = nn.GroupNorm(4, 16), CrossAttention(16, 16, 1)
        self.up, self.r2 = nn.Conv2d(16, 16, 3, padding=1), ResBlock(16, 8, None)
        self.last, self.leave = nn.GroupNorm(4, 8), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        x = self.r1(self.enter(z))
        n, c, h, w = x.shape
        x = x + self.attend(self.norm(x).flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)
        x = self.r2(self.up(F.interpolate(x, scale_factor=2.0)))
        return self.leave(F.silu(self.last(x)))


@model("vae-decoder")
def _vae_decoder() -> Any:
    return Decoder(), {"z": normal(2, 4, 8, 8)}


@model("vae")
def _vae() -> Any:
    """The autoencoder of latent diffusion; its noise is an input."""

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1),
                ResBlock(8, 8, None),
                nn.ZeroPad2d((0, 1, 0, 1)),
                nn.Conv2d(8, 16, 3, 2),
                nn.GroupNorm(4, 16),
                nn.SiLU(),
                nn.Conv2d(16, 8, 3, padding=1),
            )
            self.decode = Decoder()

        def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
            mean, log = self.encode(x).chunk(2, 1)
            z = mean + torch.exp(0.5 * torch.clamp(log, -30.0, 20.0)) * noise
            return self.decode(z), z

    return VAE(), {"x": normal(2, 3, 16, 16), "noise": normal(2, 4, 8, 8)}


@model("vq-vae")
def _vq_vae() -> Any:
    """van den Oord and others, 2017: the nearest of a book's codes."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.book = nn.Conv2d(3, 8, 4, 4), nn.Embedding(16, 8)
            self.decode = nn.ConvTranspose2d(8, 3, 4, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = self.encode(x).permute(0, 2, 3, 1)
            codes = torch.cdist(z.flatten(0, 2), self.book.weight).argmin(-1)
            return self.decode(self.book(codes).view(z.shape).permute(0, 3, 1, 2)), codes

    return Net(), {"x": normal(2, 3, 16, 16)}


@model("diffusion-transformer")
def _dit() -> Any:
    """Peebles and Xie, 2023: a transformer whose layer norms the step moves and scales."""

    class Block(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(c, elementwise_affine=False), nn.LayerNorm(c, elementwise_affine=False)
            self.attend, self.mlp = (
                nn.MultiheadAttention(c, 2, batch_first=True),
                nn.Sequential(nn.Linear(c, 4 * c), nn.GELU("tanh"), nn.Linear(4 * c, c)),
            )
            self.moves = nn.Sequential(nn.SiLU(), nn.Linear(c, 6 * c))

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            s1, m1, g1, s2, m2, g2 = self.moves(t)[:, None].chunk(6, -1)
            y = self.n1(x) * (1 + s1) + m1
            x = x + g1 * self.attend(y, y, y, need_weights=False)[0]
            return x + g2 * self.mlp(self.n2(x) * (1 + s2) + m2)

    class DiT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.time, self.a, self.b = nn.Linear(16, 32), nn.Linear(16, 32), Block(32), Block(32)
            self.leave = nn.Linear(32, 16)

        def forward(self, x: Tensor, step: Tensor) -> Tensor:
            n, c, h, w = x.shape
            y = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(n, h * w // 4, 4 * c)
            t = self.time(timestep_embedding(step, 16))
            y = self.leave(self.b(self.a(self.enter(y), t), t))
            return y.reshape(n, h // 2, w // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w)

    return DiT(), {"x": normal(2, 4, 8, 8), "step": torch.tensor([1, 30])}
