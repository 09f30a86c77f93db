"""Computes that two compilers of the TVM family tune: written for the `te` and `tir` of either."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple


class Language(NamedTuple):
    """The modules of a compiler in which computes are written."""

    te: ModuleType
    tir: ModuleType


def gemm(given: Language, rows: int = 512, columns: int = 512, depth: int = 512) -> list[Any]:
    """c[i, j] = sum(a[i, k] * b[k, j])."""
    te = given.te
    a, b = te.placeholder((rows, depth), name="a"), te.placeholder((depth, columns), name="b")
    k = te.reduce_axis((0, depth), name="k")
    return [a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


def padded(given: Language, x: Any, channels: int, size: int) -> Any:
    """A border of zeros, one element wide."""
    te, tir = given
    return te.compute(
        (1, channels, size + 2, size + 2),
        lambda n, c, i, j: tir.if_then_else(
            tir.all(i >= 1, i < size + 1, j >= 1, j < size + 1), x[n, c, i - 1, j - 1], tir.const(0.0, "float32")
        ),
        name="padded",
    )


def conv2d(given: Language, channels: int = 64, size: int = 56) -> list[Any]:
    """A 3 x 3 convolution, NCHW, with padding."""
    te = given.te
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, channels, 3, 3), name="w")
    p = padded(given, x, channels, size)
    c, dy, dx = (
        te.reduce_axis((0, channels), name="c"),
        te.reduce_axis((0, 3), name="dy"),
        te.reduce_axis((0, 3), name="dx"),
    )
    y = te.compute(
        (1, channels, size, size),
        lambda n, f, i, j: te.sum(p[n, c, i + dy, j + dx] * w[f, c, dy, dx], axis=[c, dy, dx]),
        name="y",
    )
    return [x, w, y]


def depthwise(given: Language, channels: int = 128, size: int = 56) -> list[Any]:
    """A 3 x 3 convolution of each channel, NCHW, with padding."""
    te = given.te
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, 3, 3), name="w")
    p = padded(given, x, channels, size)
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    y = te.compute(
        (1, channels, size, size),
        lambda n, c, i, j: te.sum(p[n, c, i + dy, j + dx] * w[c, dy, dx], axis=[dy, dx]),
        name="y",
    )
    return [x, w, y]


def softmax_of(given: Language, x: Any, shape: tuple[int, ...]) -> Any:
    """exp(x - max) / sum over the last axis."""
    te = given.te
    *outer, length = shape
    k, r = te.reduce_axis((0, length), name="k"), te.reduce_axis((0, length), name="r")
    top = te.compute(tuple(outer), lambda *at: te.max(x[(*at, k)], axis=k), name="top")
    e = te.compute(shape, lambda *at: te.exp(x[at] - top[at[:-1]]), name="e")
    total = te.compute(tuple(outer), lambda *at: te.sum(e[(*at, r)], axis=r), name="total")
    return te.compute(shape, lambda *at: e[at] / total[at[:-1]], name="share")


def softmax(given: Language, rows: int = 1024, columns: int = 1024) -> list[Any]:
    """The softmax of rows."""
    x = given.te.placeholder((rows, columns), name="x")
    return [x, softmax_of(given, x, (rows, columns))]


def attention(given: Language, heads: int = 8, tokens: int = 128, width: int = 64) -> list[Any]:
    """softmax(q k^T / sqrt(width)) v, for each head."""
    te, tir = given
    q, k, v = [te.placeholder((heads, tokens, width), name=name) for name in "qkv"]
    d, t = te.reduce_axis((0, width), name="d"), te.reduce_axis((0, tokens), name="t")
    scale = tir.const(width**-0.5, "float32")
    s = te.compute((heads, tokens, tokens), lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d), name="s")
    scaled = te.compute((heads, tokens, tokens), lambda h, i, j: s[h, i, j] * scale, name="scaled")
    p = softmax_of(given, scaled, (heads, tokens, tokens))
    y = te.compute((heads, tokens, width), lambda h, i, c: te.sum(p[h, i, t] * v[h, t, c], axis=t), name="y")
    return [q, k, v, y]


KERNELS: dict[str, Callable[[Language], list[Any]]] = {
    "gemm": gemm,
    "gemm_odd": lambda given: gemm(given, 389, 611, 283),
    "gemm_rows": lambda given: gemm(given, 17, 1024, 768),
    "conv2d": conv2d,
    "depthwise": depthwise,
    "softmax": softmax,
    "attention": attention,
}
