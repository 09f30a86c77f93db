"""Programs compiled for a device beside the interpreter: kernels of every kind, random programs, a model.

DEVICE_TARGET names the target: OpenCL on pocl (`make test-opencl`), which has no float16, or a GPU of NVIDIA (`make test-gpu`).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.device.kernels import KERNELS, ONLY_CUDA, built, elementwise
from tests.codegen.device.random_kernels import cases
from tests.generators.case import difference
from tilewright import nd, relay, te, tir
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.node.field_values import numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.target import Target

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.device(TARGET.split()[0])
NAMES = [
    name
    for name in KERNELS
    if name != "int8_dot" and (DEV.device_type == tvm.cuda().device_type or name not in ONLY_CUDA)
]
"""Arrays of vectors are not made here."""
SLOW = dict.fromkeys(
    ["matmul", "matmul_dynamic_shared", "asynchronous_pipeline"],
    lambda a, b, c: (a, b, a.astype("float32") @ b.astype("float32")),
)
"""Kernels that the interpreter runs for minutes, and what they compute."""


def arrays_of(func: tir.PrimFunc, sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    out: list[Any] = []
    for p in func.params:
        b = func.buffer_map.get(p)
        if b is None:
            out.append(sizes[p.name])
            continue
        shape = [int(x) if not isinstance(x, tir.Var) else sizes[x.name] for x in b.shape]
        shape += [b.dtype.lanes] if b.dtype.lanes > 1 else []
        kind = numpy_dtype(b.dtype.element)
        drawn = rng.integers(-8, 8, shape) if kind.kind in "iu" else rng.standard_normal(shape)
        out.append(drawn.astype(kind))
    return out


def run(made: Any, arrays: list[Any]) -> list[Any]:
    """The arrays after a function ran on the device."""
    given = [nd.array(a, DEV) if isinstance(a, np.ndarray) else a for a in arrays]
    made(*given)
    return [g.numpy() if isinstance(g, nd.NDArray) else g for g in given]


@pytest.mark.parametrize("name", NAMES)
def test_kernels(name: str) -> None:
    func = KERNELS[name]()
    arrays = arrays_of(func, {"n": 37, "m": 21})
    if name in ("histogram", "checked"):
        arrays[0] = np.abs(arrays[0])
    if name == "histogram":
        arrays[1] = np.zeros(16, "int32")
        expected = [arrays[0], np.bincount(arrays[0], minlength=16)]
    elif name in SLOW:
        expected = list(SLOW[name](*arrays))
    else:
        expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
        interp.run(func, expected)
    for want, got in zip(expected, run(built(name, TARGET), arrays), strict=True):
        tolerance = 1e-2 if getattr(want, "itemsize", 4) == 2 else 1e-4
        np.testing.assert_allclose(np.asarray(got, "float64"), np.asarray(want, "float64"), tolerance, 1e-3)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_programs(first: int) -> None:
    target, ran = Target(TARGET), 0
    for seed, case, mod in cases(first, 100):
        try:
            made = tvm.build(mod, target=target)
        except TVMError:
            continue
        expected, arrays = case.arguments(seed), case.arguments(seed)
        with np.errstate(all="ignore"):
            interp.run(case.func, expected)
        found = difference(expected, run(made, arrays), max(case.tolerance, 1e-4))
        assert found is None, (seed, found)
        ran += 1
    assert ran > 5


def test_memory_between_kernels() -> None:
    """What lies between two kernels of one function is in the device's memory."""
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    c = te.compute((n,), lambda i: b[i] * b[n - 1 - i], name="c")
    with Target(TARGET):
        mod = tir.transform.DefaultGPUSchedule()(tvm.IRModule({"main": te.create_prim_func([a, c])}))
    made = tvm.build(mod, target=TARGET)
    for size in (5, 1000, 3):
        x = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(run(made, [x, x])[1], (x + 1) * (x + 1)[::-1])


def test_mathematics() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.1, 0.9, 4096).astype("float32")
    for name, lanes in (
        (n, k)
        for n in "exp exp2 exp10 log log2 log1p sqrt rsqrt sigmoid tanh sin cos tan asin acos atan erf".split()
        for k in (1, 4)
    ):
        func = elementwise("float32", lanes, lambda a, name=name: getattr(tir, name)(a))
        arrays = [x, x] if func.params[0].name == "D" else [x, np.zeros_like(x)]
        expected = [a.copy() for a in arrays]
        interp.run(func, expected)
        for want, got in zip(expected, run(tvm.build(func, target=TARGET), arrays), strict=True):
            np.testing.assert_allclose(got, want, 2e-5, 1e-6, err_msg=name)


def network() -> tuple[tvm.IRModule, np.ndarray]:
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 3, 16, 16))
    w, v = (
        relay.const(rng.standard_normal((8, 3, 3, 3), "float32")),
        relay.const(rng.standard_normal((10, 512), "float32")),
    )
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    y = relay.nn.batch_flatten(relay.nn.max_pool2d(y, (2, 2), (2, 2)))
    out = relay.nn.softmax(relay.nn.dense(y, v))
    return tvm.IRModule.from_expr(relay.Function([x], out)), rng.standard_normal((1, 3, 16, 16), "float32")


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_models(executor: str) -> None:
    mod, x = network()
    want = relay.create_executor("graph", mod, target="llvm").evaluate()(x).numpy()
    library = relay.build(mod, target=TARGET, executor=relay.backend.Executor(executor))
    if executor == "graph":
        made = graph_executor.GraphModule(library["default"](DEV))
        made.run(x=x)
        got = made.get_output(0).numpy()
    else:
        made = tvm.runtime.executor.AotModule(library["default"](DEV))
        made.run(x=x)
        got = made.get_output(0).numpy()
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
