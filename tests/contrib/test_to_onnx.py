"""Relay programs as models of ONNX: imported again, they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib.target.onnx import get_onnx_version, to_onnx

RNG = np.random.default_rng(7)
N = relay.nn


def evaluated(mod: Any, inputs: list[np.ndarray[Any, Any]], params: Any = None) -> list[np.ndarray[Any, Any]]:
    library = relay.build(mod, target="llvm", params=params)
    executor = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
    for k, value in enumerate(inputs):
        executor.set_input(f"x{k}", value)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


D, W, M = (1, 4, 8, 8), (6, 4, 3, 3), (3, 5)
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "conv": (lambda x, w, b: N.relu(N.bias_add(N.conv2d(x, w, (2, 1), (1, 0, 1, 2), kernel_size=(3, 3)), b)), (D, W, (6,))),
    "conv_transpose": (
        lambda x, w: N.conv2d_transpose(x, w, (2, 2), (1, 1), output_padding=(1, 1), kernel_size=(3, 3), channels=3), (D, (4, 3, 3, 3)),
    ),
    "pools": (lambda x: N.avg_pool2d(N.max_pool2d(x, (3, 3), (1, 1), padding=(1, 1)), (2, 2), (2, 2), count_include_pad=True), (D,)),
    "global pool": (lambda x: N.batch_flatten(N.global_avg_pool2d(x)), (D,)),
    "products": (lambda x, w: N.dense(x, w), (M, (4, 5))),
    "batch_matmul": (lambda x, y: N.batch_matmul(x, y, transpose_a=True, transpose_b=False), ((2, 3, 4), (2, 3, 5))),
    "softmax": (lambda x: relay.add(N.softmax(x, 1), N.log_softmax(x, -1)), ((2, 3, 4),)),
    "batch_norm": (lambda x, g, b, m, v: N.batch_norm(x, g, b, m, relay.exp(v))[0], (D, (4,), (4,), (4,), (4,))),
    "shapes": (lambda x: relay.squeeze(relay.expand_dims(relay.reshape(x, (2, -1)), 1), [1]), (D,)),
    "transpose": (lambda x: relay.layout_transform(relay.transpose(x, (0, 2, 3, 1)), "NHWC", "NCHW"), (D,)),
    "joined": (lambda x, y: relay.concatenate([x, y], 1), (M, (3, 2))),
    "pieces": (lambda x: relay.add(relay.split(x, 2, 1)[0], relay.split(x, [2], 1)[1]), (D,)),
    "slice": (lambda x: relay.strided_slice(x, [0, 1], [1, 4], [1, 2]), (D,)),
    "slice of sizes": (lambda x: relay.strided_slice(x, [0, 1], [1, -1], slice_mode="size"), (D,)),
    "reductions": (lambda x: relay.mean(relay.sum(x, (2,), keepdims=True), (-1,)), (D,)),
    "other axes": (lambda x: relay.max(x, (1,), exclude=True), (D,)),
    "pad": (lambda x: N.pad(x, ((0, 0), (1, 0), (0, 2), (1, 1)), 2.0), (D,)),
    "limits": (lambda x: relay.cast(relay.clip(x, -0.5, 0.5), "float64"), (M,)),
    "lrn": (lambda x: N.lrn(x, 3, 1, 2.0, 1e-2, 0.5), (D,)),
    "resize": (lambda x: relay.image.resize2d(x, (16, 12), method="linear", coordinate_transformation_mode="half_pixel"), (D,)),
    "nearest": (lambda x: relay.image.resize2d(x, (16, 16), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"), (D,)),
    "constants": (lambda x: relay.add(relay.add(x, relay.ones((5,), "float32")), relay.broadcast_to(relay.const(2.0), (3, 5))), (M,)),
    "comparison": (lambda x, y: relay.where(relay.less(x, y), x, relay.zeros_like(y)), (M, M)),
    "several results": (lambda x: relay.Tuple([relay.tanh(x), relay.negative(x)]), (M,)),
}  # fmt: skip


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, opset: int) -> None:
    form, shapes = CASES[name]
    variables = [relay.var(f"x{k}", shape=s) for k, s in enumerate(shapes)]
    mod = tvm.IRModule.from_expr(relay.Function(variables, form(*variables)))
    arrays = [RNG.standard_normal(s).astype("float32") for s in shapes]
    model = to_onnx(mod, None, "case", opset_version=opset)
    assert model.opset_import[0].version == opset
    again, params = relay.frontend.from_onnx(model)
    for found, wanted in zip(evaluated(again, arrays, params), evaluated(mod, arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_parameters_become_constants(tmp_path: Path) -> None:
    x, w = relay.var("x0", shape=M), relay.var("w", shape=(4, 5))
    mod, value = tvm.IRModule.from_expr(relay.Function([x, w], N.dense(x, w))), RNG.random((4, 5), "float32")
    to_onnx(mod, {"w": tvm.nd.array(value)}, "dense", path=str(tmp_path / "dense.onnx"))
    model = onnx.load(tmp_path / "dense.onnx")
    assert [i.name for i in model.graph.input] == ["x0"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), value)


def test_what_is_not_written() -> None:
    x = relay.var("x0", shape=M)
    with pytest.raises(tvm.error.OpNotImplemented, match="to_onnx has no converter of argsort"):
        to_onnx(tvm.IRModule.from_expr(relay.argsort(x)), None, "sorted")
    with pytest.raises(NotImplementedError, match="models are written in versions 11"):
        to_onnx(tvm.IRModule.from_expr(relay.exp(x)), None, "old", opset_version=7)
    assert get_onnx_version() == onnx.__version__
