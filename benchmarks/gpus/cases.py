"""What is measured on a GPU: products, convolutions, attention, operators bound by memory, whole models; as data."""

from __future__ import annotations

import math
from typing import NamedTuple

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


class Case(NamedTuple):
    """One case. group: what it is measured for; kind: of program; sizes: its extents by name; operations and bytes: the least of a run (a
    multiply-add counts two), 0 where they are not told."""

    group: str
    kind: str
    dtype: str
    sizes: dict[str, int]
    label: str = ""
    operations: int = 0
    bytes: int = 0

    @property
    def name(self) -> str:
        """Unique among all cases."""
        sizes = "x".join(map(str, self.sizes.values()))
        return " ".join(filter(None, [self.kind, self.label, sizes, self.dtype]))


def product(group: str, dtype: str, m: int, n: int, k: int, batch: int = 1, label: str = "") -> Case:
    """(batch, m, k) times (k, n) for a batch of 1, times (batch, k, n) otherwise."""
    moved = BYTES[dtype] * batch * (m * k + k * n + m * n)
    sizes = {"batch": batch, "m": m, "n": n, "k": k} if batch > 1 else {"m": m, "n": n, "k": k}
    return Case(group, "gemm", dtype, sizes, label, 2 * batch * m * n * k, moved)


_OF_MODELS = [
    # (rows, columns, reduction, of which model)
    (128, 768, 768, "BERT-base, attention"), (128, 3072, 768, "BERT-base, up"), (128, 768, 3072, "BERT-base, down"),
    (4096, 768, 768, "BERT-base b32, attention"), (4096, 3072, 768, "BERT-base b32, up"), (4096, 768, 3072, "BERT-base b32, down"),
    (4096, 2304, 768, "BERT-base b32, qkv"), (4096, 1024, 1024, "BERT-large b32, attention"), (4096, 4096, 1024, "BERT-large b32, up"),
    (197, 768, 768, "ViT-B/16, attention"), (197, 3072, 768, "ViT-B/16, up"), (6304, 768, 768, "ViT-B/16 b32, attention"),
    (6304, 3072, 768, "ViT-B/16 b32, up"), (6304, 768, 3072, "ViT-B/16 b32, down"), (8224, 1024, 1024, "ViT-L/14 b32, attention"),
    (8224, 4096, 1024, "ViT-L/14 b32, up"), (1024, 2304, 768, "GPT-2, qkv"), (1024, 50257, 768, "GPT-2, logits"),
    (1024, 3072, 768, "GPT-2, up"), (1, 3072, 768, "GPT-2, one token"), (2048, 4096, 4096, "Llama 7B, attention"),
    (2048, 11008, 4096, "Llama 7B, gate"), (2048, 4096, 11008, "Llama 7B, down"), (2048, 14336, 4096, "Llama 3 8B, gate"),
    (2048, 4096, 14336, "Llama 3 8B, down"), (2048, 1024, 4096, "Llama 3 8B, keys"), (32, 4096, 4096, "Llama 7B, 32 tokens"),
    (32, 1000, 2048, "ResNet-50 b32, classes"), (4096, 320, 320, "diffusion UNet, attention"), (4096, 2560, 320, "diffusion UNet, up"),
]  # fmt: skip
"""30 products of real models."""

_BATCHED = [
    (384, 128, 128, 64, "BERT-base b32, scores"),
    (384, 128, 64, 128, "BERT-base b32, values"),
    (12, 1024, 1024, 64, "GPT-2, scores"),
]


def products() -> list[Case]:
    found = [product("gemm", t, n, n, n) for n in (4096, 8192) for t in ("float16", "bfloat16")]
    found += [product("gemm of models", "float16", m, n, k, label=label) for m, n, k, label in _OF_MODELS]
    found += [product("gemm fp32", "float32", n, n, n) for n in (1024, 2048, 4096)]
    return found + [product("batched gemm", "float16", m, n, k, b, label) for b, m, n, k, label in _BATCHED]


_RESNET = [
    # (channels, height, filters, kernel, stride): the convolutions of ResNet-50 that differ
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1), (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1), (128, 28, 128, 3, 1), (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1),
]  # fmt: skip


def convolution(c: int, h: int, f: int, kernel: int, stride: int, batch: int = 32, dtype: str = "float16") -> Case:
    """Square images with as many pixels on each side as keep the image at stride 1."""
    out = -(-h // stride)
    operations = 2 * batch * out * out * f * c * kernel * kernel
    moved = BYTES[dtype] * (batch * c * h * h + f * c * kernel * kernel + batch * f * out * out)
    sizes = {"batch": batch, "channels": c, "height": h, "filters": f, "kernel": kernel, "stride": stride}
    return Case("convolution", "conv2d", dtype, sizes, "", operations, moved)


_DEPTHWISE = [
    # (channels, height, kernel, stride): of MobileNetV2, EfficientNet and ConvNeXt
    (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (384, 14, 3, 1), (960, 7, 3, 1), (240, 28, 5, 1), (96, 56, 7, 1),
]  # fmt: skip


def depthwise(c: int, h: int, kernel: int, stride: int, batch: int = 32, dtype: str = "float16") -> Case:
    """A filter of its own for each channel of square images."""
    out = -(-h // stride)
    moved = BYTES[dtype] * (batch * c * (h * h + out * out) + c * kernel * kernel)
    sizes = {"batch": batch, "channels": c, "height": h, "kernel": kernel, "stride": stride}
    return Case("depthwise", "depthwise", dtype, sizes, "", 2 * batch * out * out * c * kernel * kernel, moved)


def attention(batch: int, heads: int, groups: int, queries: int, keys: int, width: int, causal: bool = False) -> Case:
    """groups: heads of keys and values, of which each serves heads / groups heads of queries."""
    work = 4 * batch * heads * queries * keys * width // (2 if causal else 1)
    moved = 2 * batch * width * (2 * heads * queries + 2 * groups * keys)
    sizes = {
        "batch": batch,
        "heads": heads,
        "groups": groups,
        "queries": queries,
        "keys": keys,
        "width": width,
        "causal": int(causal),
    }
    return Case("attention", "attention", "float16", sizes, "causal" if causal else "", work, moved)


def attentions() -> list[Case]:
    return [
        attention(32, 12, 12, 128, 128, 64),
        attention(8, 16, 16, 1024, 1024, 64),
        attention(8, 16, 16, 1024, 1024, 64, True),
        attention(4, 16, 16, 4096, 4096, 64, True),
        attention(4, 16, 16, 2048, 2048, 128),
        attention(2, 32, 8, 4096, 4096, 128, True),
        attention(16, 32, 8, 1, 4096, 128),
    ]


def by_memory(kind: str, dtype: str, *shape: int, passes: float = 2.0) -> Case:
    """passes: how often as many bytes as the input are moved."""
    names = ("rows", "columns") if len(shape) == 2 else ("elements",)
    moved = int(BYTES[dtype] * math.prod(shape) * passes)
    return Case("memory", kind, dtype, dict(zip(names, shape, strict=True)), "", 0, moved)


def memory_bound() -> list[Case]:
    return [
        by_memory("softmax", "float16", 32768, 4096),
        by_memory("softmax", "float32", 65536, 1024),
        by_memory("layer_norm", "float16", 65536, 1024),
        by_memory("layer_norm", "float16", 16384, 4096),
        by_memory("rms_norm", "float16", 16384, 4096),
        by_memory("add", "float16", 1 << 27, passes=3),
        by_memory("gelu", "float16", 1 << 27),
        by_memory("relu", "float32", 1 << 26),
        by_memory("row_sum", "float32", 16384, 8192, passes=1),
        by_memory("transpose", "float16", 16384, 8192),
    ]


def models() -> list[Case]:
    return [
        Case("models", name, "float16", {"batch": batch})
        for batch in (1, 32)
        for name in ("resnet50", "bert_base", "vit_b16")
    ]


def all_cases() -> list[Case]:
    """Every case, those first that matter most where time runs out."""
    head, rest = products()[:4], products()[4:]
    convolutions = [convolution(*layer) for layer in _RESNET]
    filters = [depthwise(*layer) for layer in _DEPTHWISE]
    return [*head, *memory_bound(), *convolutions, *filters, *attentions(), *rest, *models()]
