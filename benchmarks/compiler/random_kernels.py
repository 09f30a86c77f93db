"""Random kernels for process replay: programs of one operator and what follows it, of sizes drawn from a fixed seed.

Kinds follow each other in turn: products, convolutions (whole, grouped, depthwise), pooling, softmax, reductions, element-wise chains.
Sizes are log-uniform; half of them are rounded up to multiples of eight, as those of networks are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import ml_dtypes
import numpy as np

from benchmarks.random_operators.draws import Rng, extent, joined, pick
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay.expr import Call, Constant, Expr, Var
from tilewright.relay.functor import free_vars

MOST_WORK = 1 << 28
"""Multiply-adds of a product or convolution, at most."""
Drawn = tuple[str, Expr]


def data(shape: tuple[int, ...], dtype: str = "float32") -> Var:
    return relay.var("x", shape=shape, dtype=dtype)


def weight(rng: Rng, shape: tuple[int, ...], dtype: str = "float32") -> Constant:
    if dtype == "int8":
        return relay.const(rng.integers(-128, 128, shape).astype(dtype))
    return relay.const(
        rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    )


def followed(rng: Rng, y: Call, channels: int | None = None) -> Expr:
    """An epilogue, or none: a bias along axis 1 (or the last one of matrices), an activation."""
    out: Expr = y
    if channels is not None and rng.random() < 0.5:
        out = relay.nn.bias_add(out, weight(rng, (channels,)))
    return pick(rng, lambda e: e, relay.nn.relu, relay.sigmoid)(out)  # type: ignore[no-any-return]


def dense(rng: Rng) -> Drawn:
    while True:
        m, n, k = pick(rng, 1, 2, 7, extent(rng), extent(rng)), extent(rng), extent(rng)
        if m * n * k <= MOST_WORK:
            break
    operands, out = pick(rng, *[("float32", "float32")] * 4, ("bfloat16", "float32"), ("uint8", "int32"))
    other = "int8" if operands == "uint8" else operands
    y = relay.nn.dense(data((m, k), operands), weight(rng, (n, k), other), out_dtype=out)
    return f"dense {m}x{n}x{k} {operands}", followed(rng, y, n) if out == "float32" else y


def batch_matmul(rng: Rng) -> Drawn:
    while True:
        b, m, n, k = extent(rng, 24), extent(rng), extent(rng), extent(rng)
        if b * m * n * k <= MOST_WORK:
            break
    turned = bool(rng.random() < 0.5)
    right = relay.var("w", shape=(b, n, k) if turned else (b, k, n))
    y = relay.nn.batch_matmul(data((b, m, k)), right, transpose_b=turned)
    return f"batch_matmul {b}x{m}x{n}x{k}{' turned' * turned}", followed(rng, y)


def image(rng: Rng) -> tuple[int, int]:
    side = extent(rng, 112)
    return (side, side) if rng.random() < 0.7 else (side, extent(rng, 112))


def conv2d(rng: Rng) -> Drawn:
    while True:
        images, (h, w), kernel = pick(rng, 1, 1, 1, 2, 4), image(rng), pick(rng, 1, 1, 3, 3, 3, 5, 7)
        groups = pick(rng, 1, 1, 1, 1, 2, 4, 8)
        each, filters, stride = extent(rng, 256), extent(rng, 256), pick(rng, 1, 1, 2)
        work = images * h * w * filters * groups * each * kernel * kernel // stride**2
        if min(h, w) >= kernel and work <= MOST_WORK:
            break
    x = data((images, each * groups, h, w))
    filters *= groups
    y = relay.nn.conv2d(
        x,
        weight(rng, (filters, each, kernel, kernel)),
        strides=(stride, stride),
        padding=(kernel // 2,) * 2,
        groups=groups,
    )
    name = f"conv2d {images}x{each * groups}x{h}x{w} to {filters} k{kernel} s{stride} g{groups}"
    return name, followed(rng, y, filters)


def depthwise(rng: Rng) -> Drawn:
    while True:
        images, (h, w), kernel, channels = pick(rng, 1, 1, 2), image(rng), pick(rng, 3, 3, 5, 7), extent(rng)
        if min(h, w) >= kernel and images * h * w * channels * kernel**2 <= MOST_WORK:
            break
    stride = pick(rng, 1, 1, 2)
    w_ = weight(rng, (channels, 1, kernel, kernel))
    y = relay.nn.conv2d(
        data((images, channels, h, w)), w_, strides=(stride, stride), padding=(kernel // 2,) * 2, groups=channels
    )
    return f"depthwise {images}x{channels}x{h}x{w} k{kernel} s{stride}", followed(rng, y, channels)


def pooling(rng: Rng) -> Drawn:
    while True:
        images, (h, w), kernel, channels = pick(rng, 1, 1, 2), image(rng), pick(rng, 2, 3, 3, 5, 9), extent(rng)
        if min(h, w) >= kernel:
            break
    stride = pick(rng, 1, 2, kernel)
    op = pick(rng, relay.nn.max_pool2d, relay.nn.avg_pool2d)
    y = op(data((images, channels, h, w)), (kernel, kernel), (stride, stride), padding=(pick(rng, 0, kernel // 2),) * 2)
    return f"{y.op.name} {images}x{channels}x{h}x{w} k{kernel} s{stride}", y


def shape(rng: Rng, low: int, high: int) -> tuple[int, ...]:
    while True:
        found = tuple([extent(rng) for _ in range(int(rng.integers(low, high + 1)))])
        if prod(found) <= 1 << 22:
            return found


def softmax(rng: Rng) -> Drawn:
    given = shape(rng, 1, 4)
    axis = len(given) - 1 if rng.random() < 0.7 else int(rng.integers(len(given)))
    y = pick(rng, relay.nn.softmax, relay.nn.softmax, relay.nn.log_softmax)(data(given), axis=axis)
    return f"{y.op.name} {joined(given)} axis {axis}", y


def reduction(rng: Rng) -> Drawn:
    given = shape(rng, 1, 4)
    first = int(rng.integers(len(given)))
    axes = list(range(first, len(given) if rng.random() < 0.6 else int(rng.integers(first, len(given))) + 1))
    y = pick(rng, relay.sum, relay.mean, relay.max, relay.argmax, relay.variance)(data(given), axis=axes)
    return f"reduction {joined(given)} axes {joined(axes)}", y


def elementwise(rng: Rng) -> Drawn:
    given = shape(rng, 1, 4)
    y: Expr = data(given)
    names = []
    for _ in range(int(rng.integers(1, 4))):
        op = pick(rng, relay.exp, relay.tanh, relay.sqrt, relay.nn.relu, relay.transpose, relay.add, relay.multiply)
        if op in (relay.add, relay.multiply):
            axis = int(rng.integers(len(given)))
            other = tuple([d if i >= axis else 1 for i, d in enumerate(given)])
            y = op(y, relay.var("w", shape=other))
        else:
            y = op(y)
        names.append(op.__name__)
        if op is relay.transpose:
            given = given[::-1]
    return f"{joined(given)} {' '.join(names)}", y


FAMILIES: tuple[Callable[[Rng], Drawn], ...] = (
    dense,
    conv2d,
    depthwise,
    pooling,
    softmax,
    reduction,
    elementwise,
    batch_matmul,
)


def programs(count: int, seed: int) -> Iterator[tuple[str, IRModule]]:
    """(name, program) of so many random kernels; each is the same whatever their number."""
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        name, y = FAMILIES[i % len(FAMILIES)](rng)
        yield f"{i:03} {name}", IRModule.from_expr(relay.Function(free_vars(y), y))


__all__ = ["programs"]
