"""Small kernels, and the check that the candidates of their design spaces compute what they do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from tests.tir_schedule.random_programs.programs import run_program
from tilewright import te, tir
from tilewright.meta_schedule import TuneContext
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc

F32 = "float32"


def gemm(m: int = 8, n: int = 12, k: int = 6, relu: bool = False) -> PrimFunc:
    a, b, r = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"), te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if relu:
        c = te.compute((m, n), lambda i, j: te.max(c[i, j], tir.const(0.0, F32)), name="D")
    return te.create_prim_func([a, b, c])


def conv(ci: int = 3, h: int = 6, co: int = 4, k: int = 3) -> PrimFunc:
    """A padded convolution, NCHW."""
    x, w = te.placeholder((1, ci, h, h), name="X"), te.placeholder((co, ci, k, k), name="W")
    pad = te.compute(
        (1, ci, h + 2, h + 2),
        lambda n, c, i, j: tir.if_then_else(
            tir.all(i >= 1, i < h + 1, j >= 1, j < h + 1), x[n, c, i - 1, j - 1], tir.const(0.0, F32)
        ),
        name="pad",
    )
    rc, ry, rx = (te.reduce_axis((0, size), name=name) for size, name in ((ci, "rc"), (k, "ry"), (k, "rx")))
    out = h + 3 - k
    y = te.compute(
        (1, co, out, out),
        lambda n, f, i, j: te.sum(pad[n, rc, i + ry, j + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="Y",
    )
    return te.create_prim_func([x, w, y])


def softmax(m: int = 4, n: int = 12) -> PrimFunc:
    x = te.placeholder((m, n), name="X")
    k, j = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="j")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((m, n), lambda i, c: te.exp(x[i, c] - top[i]), name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, j], axis=j), name="total")
    return te.create_prim_func([x, te.compute((m, n), lambda i, c: e[i, c] / total[i], name="Y")])


def elementwise(n: int = 6, m: int = 10) -> PrimFunc:
    x = te.placeholder((n, m), name="X")
    a = te.compute((n, m), lambda i, j: x[i, j] * 2.0, name="twice")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="more")
    return te.create_prim_func([x, te.compute((n, m), lambda i, j: te.max(b[i, j], x[i, j]), name="Y")])


def norm(m: int = 1, n: int = 64) -> PrimFunc:
    """Sums over long rows, of which there are few."""
    x, k = te.placeholder((m, n), name="X"), te.reduce_axis((0, n), name="k")
    s = te.compute((m,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="S")
    return te.create_prim_func([x, te.compute((m,), lambda i: s[i] + 1.0, name="Y")])


KERNELS: dict[str, Callable[[], PrimFunc]] = {
    "gemm": gemm,
    "gemm_relu": lambda: gemm(relu=True),
    "conv": conv,
    "softmax": softmax,
    "elementwise": elementwise,
    "norm": norm,
}


def inputs_of(func: PrimFunc, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    buffers = [func.buffer_map[p] for p in func.params[:-1]]
    return {b.name: random.integers(-3, 4, [int(n) for n in b.shape]).astype(str(b.dtype)) for b in buffers}


def context(func: PrimFunc, target: str = "llvm", space: object = "post-order-apply", seed: int = 1) -> TuneContext:
    return TuneContext(func, target=target, space_generator=space, rand_state=seed, num_threads=2)


def check_draws(func: PrimFunc, space: TraceSpace, count: int, seed: int = 0, rtol: float = 1e-5) -> int:
    """Draws candidates and neighbours of them, and compares what they compute. Returns how many were accepted."""
    random, accepted = Random(seed), 0
    inputs = inputs_of(func)
    expected = run_program(func, inputs)
    candidate = space.draw(random)
    for i in range(count):
        candidate = space.neighbour(candidate, random) if i % 3 else space.draw(random)
        try:
            program = space.program(candidate)
        except TVMError:
            continue
        accepted += 1
        for got, want in zip(run_program(program, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5, err_msg=str(candidate))
    return accepted
