"""ProductsOfWindows: convolutions along a line of dynamic extent, as products, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.scheduling.graph_plan import GraphPlan

R = np.random.default_rng(0)
N, W = tvm.tir.SizeVar("n", "int64"), tvm.tir.SizeVar("w", "int64")


def line(shape: Any, weight: Any, **attrs: Any) -> Any:
    """A convolution of weights along the last axis, with a bias."""
    kind = f"conv{len(shape) - 2}d"
    x = relay.var("x", shape=shape, dtype="float32")
    w = relay.const(R.standard_normal(weight).astype("float32"))
    bias = relay.const(R.standard_normal(weight[0]).astype("float32"))
    body = relay.nn.relu(relay.nn.bias_add(getattr(relay.nn, kind)(x, w, **attrs), bias))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


LINES: dict[str, tuple[Any, Any, dict[str, Any], list[Any]]] = {
    "of spectrograms": ((N, 1, 1, W), (257, 1, 1, 512), {"strides": (1, 160)}, [(1, 1, 1, 1760), (2, 1, 1, 4000), (1, 1, 1, 512)]),
    "with borders": ((1, 1, W), (40, 1, 65), {"strides": (3,), "padding": (7, 30)}, [(1, 1, 100), (1, 1, 40)]),
    "of images": ((N, 1, 64), (17, 1, 32), {}, [(3, 1, 64), (1, 1, 64)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_lines_are_products(name: str) -> None:
    shape, weight, attrs, given = LINES[name]
    mod = line(shape, weight, **attrs)
    made = str(relay.transform.ProductsOfWindows()(mod))
    assert "nn.dense" in made and "nn.conv" not in made
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    body: Any = mod["main"].body
    conv = body.args[0].args[0]
    w, bias = conv.args[1].value, body.args[0].args[1].value
    stride = attrs.get("strides", (1,))[-1]
    for extents in given:
        x = R.standard_normal(extents).astype("float32")
        wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [attrs.get("padding", (0, 0))])
        rows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[-1], axis=-1)[..., ::stride, :]
        found = np.einsum("nc...pk,fk->nf...p", rows, w.reshape(len(w), -1)) + bias.reshape(-1, *[1] * (x.ndim - 2))
        np.testing.assert_allclose(machine.run(x=x).numpy(), np.maximum(found, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape, weight, attrs",
    [
        ((1, 1, 1, 4000), (257, 1, 1, 512), {}),
        ((1, 2, 1, W), (257, 2, 1, 512), {}),
        ((1, 1, 2, W), (257, 1, 1, 512), {}),
        ((1, 1, 1, W), (257, 1, 1, 9), {}),
        ((1, 1, 1, W), (8, 1, 1, 512), {}),
        ((1, 1, 1, W), (257, 1, 1, 512), {"dilation": (1, 2)}),
        ((1, 1, 1, W), (257, 1, 1, 512), {"padding": (1, 0)}),
    ],
    ids=["known sizes", "channels", "lines", "short windows", "few filters", "dilation", "borders above"],
)
def test_others_stay(shape: Any, weight: Any, attrs: dict[str, Any]) -> None:
    mod = line(shape, weight, **attrs)
    assert "nn.dense" not in str(relay.transform.ProductsOfWindows()(mod))


@pytest.mark.parametrize(("filters", "form"), [(257, "convolution"), (8, "product")])
def test_the_plan_decides(filters: int, form: str) -> None:
    """Against the model, which takes products for many filters."""
    mod, name = line((1, 1, 1, W), (filters, 1, 1, 512)), f"windows(512, {filters} filters).form"
    with GraphPlan("llvm", {name: form}) as plan:
        made = str(relay.transform.ProductsOfWindows()(mod))
    assert plan.space() == {name: ["convolution", "product"]} and not plan.unfit()
    assert ("nn.dense" in made) == (form == "product")


def test_an_extent_of_the_data_is_no_code_of_a_reshape() -> None:
    """It might be -1, as far as its expression says; each reshape to it, one after another, doubled the expression."""
    places = (W + 128) // 160 - 3
    x = relay.var("x", shape=(1, 1, places, 8), dtype="float32")
    made = relay.transform.InferType()(tvm.IRModule.from_expr(relay.reshape(x, (1, places, 8))))
    assert str(made["main"].checked_type.ret_type.shape[1]) == str(places)
