"""Random tensor programs for schedules, and the check that a program still computes what it did."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.codegen.interp import InterpError, run
from tilewright.ir import IRModule
from tilewright.tir import PrimFunc


def run_program(mod: Any, inputs: dict[str, np.ndarray], check_races: bool = True) -> list[np.ndarray]:
    """The outputs of a function, given its inputs by the names of their buffers."""
    func = mod["main"] if isinstance(mod, IRModule) else mod
    arrays, outputs = [], []
    for p in func.params:
        b = func.buffer_map[p]
        shape = tuple([int(n) for n in b.shape])
        if b.name in inputs:
            arrays.append(inputs[b.name].reshape(shape).copy())
        else:
            arrays.append(np.full(shape, 77, str(b.dtype)))
            outputs.append(arrays[-1])
    try:
        run(func, arrays, check_races=check_races)
    except InterpError as error:
        # A buffer used only inside a parallel loop is allocated there when the program is lowered.
        own = [func.buffer_map[p].name for p in func.params]
        if not str(error).startswith("race: ") or any([f"buffer {name}[" in str(error) for name in own]):
            raise
        return run_program(mod, inputs, check_races=False)
    return outputs


def random_inputs(func: PrimFunc, names: list[str], seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    buffers = {func.buffer_map[p].name: func.buffer_map[p] for p in func.params}
    return {
        n: rng.integers(-3, 4, tuple([int(x) for x in buffers[n].shape])).astype(str(buffers[n].dtype)) for n in names
    }


def random_program(rng: random.Random) -> tuple[PrimFunc, list[str]]:
    """A chain of two to five stages on small tensors, and the names of its inputs."""
    inputs: list[te.Tensor] = []

    def placeholder(shape: tuple[int, ...]) -> te.Tensor:
        t = te.placeholder(shape, name=f"in{len(inputs)}")
        inputs.append(t)
        return t

    def shape_of(t: te.Tensor) -> tuple[int, ...]:
        return tuple([int(n) for n in t.shape])

    made: list[te.Tensor] = []
    x = placeholder(tuple([rng.choice([2, 3, 4, 5, 6, 8]) for _ in range(rng.choice([1, 2, 2, 2]))]))
    for n in range(rng.randint(2, 5)):
        name = f"s{n}"
        shape = shape_of(x)
        kinds = ["scale", "add", "sum", "stencil", "pad", "pack", "reverse", "earlier"]
        if len(shape) == 2:
            kinds += ["matmul", "transpose", "rowsum", "rows", "flatten"]
        kind = rng.choice(kinds)
        if kind == "scale":
            x = te.compute(shape, lambda *i, x=x: x(*i) * tir.const(2.0, "float32"), name=name)
        elif kind == "add":
            y = placeholder(shape[-1:])
            x = te.compute(shape, lambda *i, x=x, y=y: x(*i) + y(i[-1]), name=name)
        elif kind == "sum":
            k = te.reduce_axis((0, shape[-1]), name="k")
            y = placeholder((shape[-1], 3))
            x = te.compute(
                (*shape[:-1], 3), lambda *i, x=x, y=y, k=k: te.sum(x(*i[:-1], k) * y(k, i[-1]), axis=k), name=name
            )
        elif kind == "stencil" and shape[-1] > 2:
            x = te.compute((*shape[:-1], shape[-1] - 2), lambda *i, x=x: x(*i) + x(*i[:-1], i[-1] + 2), name=name)
        elif kind == "pad":
            m = shape[-1]
            zero = tir.const(0.0, "float32")
            x = te.compute(
                (*shape[:-1], m + 2),
                lambda *i, x=x, m=m, zero=zero: tir.if_then_else(
                    tir.all(i[-1] >= 1, i[-1] < m + 1), x(*i[:-1], i[-1] - 1), zero
                ),
                name=name,
            )
        elif kind == "pack" and shape[-1] % 2 == 0:
            x = te.compute((*shape[:-1], shape[-1] // 2, 2), lambda *i, x=x: x(*i[:-2], i[-2] * 2 + i[-1]), name=name)
        elif kind == "reverse":
            m = shape[0]
            x = te.compute(shape, lambda *i, x=x, m=m: x(m - 1 - i[0], *i[1:]), name=name)
        elif kind == "earlier" and made:
            old = rng.choice(made)
            if shape_of(old) != shape:
                continue
            x = te.compute(shape, lambda *i, x=x, y=old: x(*i) + y(*i), name=name)
        elif kind == "matmul":
            k = te.reduce_axis((0, shape[1]), name="k")
            y = placeholder((shape[1], 4))
            x = te.compute((shape[0], 4), lambda i, j, *, x=x, y=y, k=k: te.sum(x[i, k] * y[k, j], axis=k), name=name)
        elif kind == "transpose":
            x = te.compute((shape[1], shape[0]), lambda i, j, *, x=x: x[j, i], name=name)
        elif kind == "rowsum":
            k = te.reduce_axis((0, shape[1]), name="k")
            total = te.compute((shape[0],), lambda i, *, x=x, k=k: te.sum(x[i, k], axis=k), name=name)
            x = te.compute(shape, lambda i, j, *, x=x, t=total: x[i, j] - t[i], name=name + "b")
        elif kind == "rows":
            k = te.reduce_axis((0, shape[0]), name="k")
            x = te.compute((shape[1],), lambda j, *, x=x, k=k: te.max(x[k, j], axis=k), name=name)
        elif kind == "flatten":
            m = shape[1]
            x = te.compute((shape[0] * m,), lambda i, *, x=x, m=m: x[i // m, i % m], name=name)
        if x is not inputs[0]:
            made.append(x)
    x = te.compute(shape_of(x), lambda *i, x=x: x(*i) + tir.const(1.0, "float32"), name="out")
    used = list(inputs)
    func = te.create_prim_func([*used, x])
    return func, [func.buffer_map[p].name for p in func.params][:-1]
