"""Random TensorIR programs: chains of computes of several types and sizes, and random schedules of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.node.field_values import numpy_dtype
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.schedule import all_blocks

DTYPES = ["float32", "float32", "float32", "int8", "int32", "float16", "bfloat16", "bool", "int64"]


WIDER = {
    "int8": ["int32", "float32", "int64"],
    "int32": ["int64", "float32"],
    "float16": ["float32"],
    "bfloat16": ["float32"],
    "bool": ["int32", "float32", "int8"],
}
KINDS = ("conv", "conv", "select", "cast")


class Program:
    """A function, the names of its buffers that are inputs, and values for its symbolic sizes."""

    def __init__(self, func: PrimFunc, inputs: list[str], sizes: dict[tir.Var, int]) -> None:
        self.func, self.inputs, self.sizes = func, inputs, sizes

    def arrays(self, seed: int) -> list[Any]:
        """Arguments: small integers for inputs, 77 (or true) in outputs, sizes for scalar parameters."""
        rng = np.random.default_rng(seed)
        out: list[Any] = []
        for p in self.func.params:
            buffer = self.func.buffer_map.get(p)
            if buffer is None:
                out.append(self.sizes[p])
                continue
            shape = tuple([self.sizes[n] if isinstance(n, tir.Var) else int(n) for n in buffer.shape])
            kind = numpy_dtype(buffer.dtype)
            if buffer.name in self.inputs:
                out.append(rng.integers(-2, 3, shape).astype(kind))
            else:
                out.append(np.full(shape, 77).astype(kind))
        return out


def _const(value: float, dtype: str) -> Any:
    return tir.const(bool(value) if dtype == "bool" else value, dtype)


def _plus(a: Any, b: Any, dtype: str) -> Any:
    return tir.all(a, tir.any(b, a)) if dtype == "bool" else a + b


def _times(a: Any, b: Any, dtype: str) -> Any:
    return tir.all(a, b) if dtype == "bool" else a * b


def random_program(rng: random.Random, dtype: str | None = None, symbolic: bool | None = None) -> Program:
    """A chain of two to four stages on small tensors; in some the first dimension is a variable."""
    dtype = dtype or rng.choice(DTYPES)
    symbolic = rng.random() < 0.25 if symbolic is None else symbolic
    inputs: list[te.Tensor] = []
    sizes: dict[tir.Var, int] = {}

    def placeholder(shape: tuple[Any, ...]) -> te.Tensor:
        t = te.placeholder(shape, dtype=dtype, name=f"in{len(inputs)}")
        inputs.append(t)
        return t

    first: Any = rng.choice([2, 3, 5, 7, 8])
    if symbolic:
        n = tir.Var("n", "int32")
        sizes[n] = first
        first = n
    shape: tuple[Any, ...] = (first, rng.choice([3, 4, 6, 8, 10, 16]))
    x = placeholder(shape)
    two = _const(2.0, dtype)
    for k in range(rng.randint(1, 3)):
        name = f"s{k}"
        m = shape[1]
        kind = rng.choice(["scale", "add", "matmul", "rowsum", "stencil", "pad", "relu", "reverse", *KINDS])
        if dtype == "bool" and kind in ("matmul", "rowsum", "relu", "conv"):
            kind = "add"
        if kind == "scale":
            x = te.compute(shape, lambda i, j, *, x=x: _times(x[i, j], two, dtype), name=name)
        elif kind == "add":
            y = placeholder((m,))
            x = te.compute(shape, lambda i, j, *, x=x, y=y: _plus(x[i, j], y[j], dtype), name=name)
        elif kind == "matmul":
            r = te.reduce_axis((0, m), name="k")
            width = rng.choice([3, 4, 8, 9])
            y = placeholder((m, width))
            shape = (shape[0], width)
            x = te.compute(shape, lambda i, j, *, x=x, y=y, r=r: te.sum(x[i, r] * y[r, j], axis=r), name=name)
        elif kind == "rowsum":
            r = te.reduce_axis((0, m), name="k")
            total = te.compute((shape[0],), lambda i, *, x=x, r=r: te.sum(x[i, r], axis=r), name=name)
            x = te.compute(shape, lambda i, j, *, x=x, t=total: x[i, j] + t[i], name=name + "b")
        elif kind == "stencil" and m > 2:
            shape = (shape[0], m - 2)
            x = te.compute(shape, lambda i, j, *, x=x: _plus(x[i, j], x[i, j + 2], dtype), name=name)
        elif kind == "pad":
            shape = (shape[0], m + 2)
            zero = _const(0.0, dtype)
            x = te.compute(
                shape,
                lambda i, j, *, x=x, m=m, zero=zero: tir.if_then_else(tir.all(j >= 1, j < m + 1), x[i, j - 1], zero),
                name=name,
            )
        elif kind == "conv" and m > 2:
            # Padding as a predicate inside the sum, and a stride.
            r, stride, taps = te.reduce_axis((0, 3), name="r"), rng.choice([1, 2]), placeholder((3,))
            shape = (shape[0], (m + 1) // stride)
            x = te.compute(
                shape,
                lambda i, j, *, x=x, m=m, r=r, w=taps, zero=_const(0.0, dtype), stride=stride: te.sum(
                    w[r]
                    * tir.if_then_else(
                        tir.all(j * stride + r >= 1, j * stride + r < m + 1), x[i, j * stride + r - 1], zero
                    ),
                    axis=r,
                ),
                name=name,
            )
        elif kind == "select":
            x = te.compute(
                shape,
                lambda i, j, *, x=x: tir.Select(tir.all(j % 3 == 1, i > 0), x[i, j], _plus(x[i, j], x[i, j], x.dtype)),
                name=name,
            )
        elif kind == "cast" and dtype in WIDER:
            dtype = rng.choice(WIDER[dtype])
            two = _const(2.0, dtype)
            x = te.compute(shape, lambda i, j, *, x=x, dtype=dtype: x[i, j].astype(dtype), name=name)
        elif kind == "relu":
            zero = _const(0.0, dtype)
            x = te.compute(shape, lambda i, j, *, x=x, zero=zero: tir.max(x[i, j], zero), name=name)
        elif kind == "reverse":
            x = te.compute(shape, lambda i, j, *, x=x, m=m: x[i, m - 1 - j], name=name)
    one = _const(1.0, dtype)
    x = te.compute(shape, lambda i, j, *, x=x: _plus(x[i, j], one, dtype), name="out")
    func = te.create_prim_func([*inputs, x])
    return Program(func, [t.op.name for t in inputs], sizes)


def random_step(s: Schedule, rng: random.Random) -> str:
    """One random primitive of CPU schedules; raises ScheduleError when it does not apply."""
    names = [b.name_hint for b in all_blocks(s.mod["main"].body.block.body)]
    name = rng.choice(names)
    block = s.get_block(name)
    loops = s.get_loops(block)
    loop = rng.choice(loops) if loops else None
    kind = rng.choice(
        ["split"] * 4
        + [
            "fuse",
            "reorder",
            "reorder",
            "compute_at",
            "reverse_compute_at",
            "vectorize",
            "vectorize",
            "unroll",
            "parallel",
        ]
        + ["cache_write", "cache_read", "decompose_reduction", "set_scope", "compute_inline", "rfactor", "annotate"]
    )
    if kind == "split" and loop is not None:
        s.split(loop, [None, rng.choice([2, 3, 4, 8])])
    elif kind == "fuse" and len(loops) > 1:
        i = rng.randrange(len(loops) - 1)
        s.fuse(*loops[i : i + 2])
    elif kind == "reorder" and len(loops) > 1:
        s.reorder(*rng.sample(loops, rng.randint(2, len(loops))))
    elif kind in ("parallel", "vectorize", "unroll") and loop is not None:
        getattr(s, kind)(loops[-1] if kind == "vectorize" and rng.random() < 0.6 else loop)
    elif kind in ("compute_at", "reverse_compute_at"):
        targets = s.get_loops(s.get_block(rng.choice(names)))
        if targets:
            getattr(s, kind)(block, rng.choice(targets))
    elif kind == "cache_write":
        s.cache_write(block, 0, "local")
    elif kind == "cache_read":
        s.cache_read(block, 0, "local")
    elif kind == "decompose_reduction" and loop is not None:
        s.decompose_reduction(block, loop)
    elif kind == "set_scope":
        s.set_scope(block, 0, "local")
    elif kind == "compute_inline":
        s.compute_inline(block)
    elif kind == "rfactor" and loop is not None:
        s.rfactor(loop, 0)
    elif kind == "annotate" and loop is not None:
        s.annotate(loop, "pragma_auto_unroll_max_step", rng.choice([4, 16, 64]))
    return f"{kind} {name}"


def random_schedule(func: PrimFunc, rng: random.Random, steps: int = 10) -> PrimFunc:
    """The function after some random primitives; those that are refused leave it as it was."""
    s = Schedule(func, seed=rng.randrange(1 << 30))
    for _ in range(steps):
        try:
            random_step(s, rng)
        except ScheduleError:
            continue
    out = s.mod["main"]
    assert isinstance(out, PrimFunc)
    return out
