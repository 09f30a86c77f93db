"""Images with channels last, where the matrix units of a device multiply along channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.models import MODELS, inputs
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import card_of, is_op
from tilewright.scheduling.graph_plan import GraphPlan

HALVES = {"relay.build.precision": "float16"}


def optimized(mod: IRModule, target: str, **config: Any) -> IRModule:
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.optimize(mod, target)[0]


def calls(mod: IRModule, *names: str) -> list[Any]:
    return [e for f in mod.functions.values() for e in post_order(f) if is_op(e, *names)]


def layouts(mod: IRModule) -> set[str]:
    return {str(card_of(call).data_layout) for call in calls(mod, "nn.conv2d")}


def images(dtype: str = "float32") -> IRModule:
    x = relay.var("x", shape=(1, 8, 6, 6), dtype=dtype)
    w = relay.const(np.ones((16, 8, 3, 3), dtype))
    made = relay.nn.conv2d(
        x, w, padding=(1, 1), channels=16, kernel_size=(3, 3), out_dtype="int32" if dtype == "int8" else ""
    )
    return IRModule.from_expr(relay.nn.max_pool2d(relay.nn.relu(made), (2, 2), (2, 2)))


def test_halves_on_matrix_units() -> None:
    made = optimized(images(), "cuda -arch=sm_80", **HALVES)
    assert layouts(made) == {"NHWC"} and {str(card_of(c).layout) for c in calls(made, "nn.max_pool2d")} == {"NHWC"}
    weights = [call.args[1] for call in calls(made, "nn.conv2d")]
    assert len(calls(made, "layout_transform")) == 2 and weights, (
        "the image in, the image out; weights are laid out once"
    )


@pytest.mark.parametrize(
    "target, config, dtype",
    [
        ("cuda -arch=sm_80", {}, "float32"),
        ("cuda -arch=sm_70", HALVES, "float32"),
        ("opencl", HALVES, "float32"),
        ("llvm", {}, "int8"),
    ],
)
def test_others_stay(target: str, config: dict[str, Any], dtype: str) -> None:
    assert "NHWC" not in layouts(optimized(images(dtype), target, **config))


def test_bytes() -> None:
    assert layouts(optimized(images("int8"), "cuda -arch=sm_80")) == {"NHWC"}


def test_three_channels_are_four() -> None:
    """The image is filled where it is laid out, the weights once."""
    x, w = relay.var("x", shape=(1, 3, 9, 9)), relay.const(np.ones((8, 3, 3, 3), "float32"))
    mod = IRModule.from_expr(relay.nn.conv2d(x, w, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    made = optimized(mod, "cuda -arch=sm_80", **HALVES)
    (conv,) = calls(made, "nn.conv2d")
    assert [t.checked_type.concrete_shape for t in conv.args] == [(1, 9, 9, 4), (3, 3, 4, 8)]
    assert len(calls(made, "nn.pad")) == 1
    data = np.random.default_rng(0).standard_normal((1, 3, 9, 9), "float32")
    found, wanted = (relay.create_executor("debug", m, tvm.cpu(), "llvm").evaluate()(data).numpy() for m in (made, mod))
    np.testing.assert_allclose(found, wanted, 2e-2, 2e-2)


def test_a_plan_decides() -> None:
    with GraphPlan("cuda -arch=sm_80", {"images(float16).layout": "plain"}) as plan:
        assert layouts(optimized(images(), "cuda -arch=sm_80", **HALVES)) == {"NCHW"}
    assert plan.space()["images(float16).layout"] == ["last", "plain"]


@pytest.mark.parametrize("name", ["mobilenet_v2", "unet"])
def test_networks_compute_the_same(name: str) -> None:
    """Group norms, depthwise convolutions, concatenations and resizes with channels last, computed on the CPU."""
    mod = MODELS[name]()
    last = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    assert layouts(last) == {"NHWC"}
    moved = calls(relay.transform.FoldConstant()(last), "layout_transform")
    assert len(moved) <= {"mobilenet_v2": 2, "unet": 8}[name], "the ends, attention among pixels, shifts of channels"
    given = inputs(mod)
    found, wanted = (
        relay.create_executor("graph", m, tvm.cpu(), "llvm").evaluate()(**given).numpy() for m in (last, mod)
    )
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)
