"""Templates that several tests use."""

from __future__ import annotations

from typing import Any

from tilewright import autotvm, te


@autotvm.template("test/matmul")
def matmul(n: int, dtype: str = "float32") -> Any:
    """The product of two square matrices, with a tile in each direction."""
    a, b = te.placeholder((n, n), name="A", dtype=dtype), te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


def task(n: int = 64) -> Any:
    return autotvm.task.create("test/matmul", args=(n,), target="llvm")


def result(seconds: float, error: int = 0, timestamp: float = 1.0) -> autotvm.MeasureResult:
    return autotvm.MeasureResult((seconds,), error, 0.5, timestamp)
