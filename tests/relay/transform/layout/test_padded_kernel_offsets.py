"""Kernels larger than the images that they see: kernel offsets that only meet padding go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import Op
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution.windows import np_conv
from tilewright.topi.nn.kernel_offsets import offsets_on_data
from tilewright.topi.utils import window_extent


def line(x: np.ndarray, w: np.ndarray, before: int, after: int, stride: int, dilation: int) -> np.ndarray:
    """A convolution of one axis."""
    return np_conv(x[None, None], w[None, None], (stride,), ((before,), (after,)), (dilation,), 1)[0, 0]


def test_fewer_kernel_offsets_give_the_same_on_every_axis() -> None:
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(1500):
        extent, kernel, stride, dilation = (int(rng.integers(1, most)) for most in (9, 8, 4, 4))
        before, after = (int(p) for p in rng.integers(0, kernel * dilation + 1, 2))
        if window_extent(extent, kernel, before, after, stride, dilation) < 1:
            continue
        x, w = rng.integers(1, 100, extent), rng.integers(1, 100, kernel)
        found = offsets_on_data(extent, kernel, before, after, stride, dilation)
        if found is None:
            continue
        cut += 1
        first, last, left, right = found
        assert min(left, right) >= 0
        assert 0 < last - first < kernel
        np.testing.assert_array_equal(
            line(x, w[first:last], left, right, stride, dilation), line(x, w, before, after, stride, dilation)
        )
    assert cut > 200


CASES: list[tuple[Any, ...]] = [
    # operator, data, weights, attributes, kernel that is left
    ("nn.conv2d", (1, 4, 1, 5), (6, 4, 7, 3), {"padding": (3, 1), "strides": (2, 1)}, (1, 3)),
    ("nn.conv2d", (1, 3, 3, 3), (2, 3, 7, 3), {"padding": (6, 2), "dilation": (2, 2)}, (3, 3)),
    ("nn.conv2d", (2, 8, 1, 1), (16, 1, 5, 5), {"padding": (2, 2), "groups": 8}, (1, 1)),
    ("nn.conv1d", (1, 4, 2), (5, 4, 9), {"padding": (4,)}, (3,)),
    ("nn.conv3d", (1, 2, 1, 4, 4), (3, 2, 3, 3, 3), {"padding": (1, 1, 1)}, (3, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2]}")
def test_built_without_padded_kernel_offsets(case: tuple[Any, ...]) -> None:
    name, shape, weights, attrs, left = case
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s, np.float32) for s in (shape, weights))
    data = relay.var("x", shape=shape)
    key = name.removeprefix("nn.")
    mod = tvm.IRModule.from_expr(relay.Function([data], getattr(relay.nn, key)(data, relay.const(w), **attrs)))
    plain = relay.transform.FoldConstant()(relay.transform.SimplifyExpr()(relay.transform.InferType()(mod)))
    kernels = [
        tuple([int(d) for d in e.args[1].checked_type.shape[2:]])
        for e in post_order(plain["main"])
        if isinstance(e, relay.Call) and e.op in (Op.get("nn.conv1d"), Op.get("nn.conv2d"), Op.get("nn.conv3d"))
    ]
    assert kernels == [left]
    n = len(shape) - 2
    padding = attrs["padding"]
    expected = np_conv(
        x,
        w,
        attrs.get("strides", (1,) * n),
        (padding, padding),
        attrs.get("dilation", (1,) * n),
        attrs.get("groups", 1),
    )
    module = graph_executor.GraphModule(relay.build(mod, target="llvm")["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_dynamic_dimensions_keep_their_kernels() -> None:
    data = relay.var("x", relay.TensorType((1, 2, relay.Any(), 1), "float32"))
    body = relay.nn.conv2d(data, relay.const(np.ones((2, 2, 3, 3), np.float32)), padding=(1, 1))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], body)))
    made = relay.transform.SimplifyExpr()(mod)["main"]
    assert tuple(made.body.args[1].checked_type.shape) == (2, 2, 3, 3)
