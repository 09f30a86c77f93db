"""Damaged files that we take: who is right where ONNX Runtime answers differently, and what counts as its failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.mutations import fate, opinion
from tests.fuzz.second_opinion import Unknown, judged, of_reference, own, weighed
from tilewright import IRModule, relay


def resize(mode: str, scales: list[float], **more: Any) -> Any:
    """Where an extent times its scale is no whole number, ONNX Runtime's "align_corners" is another one than that of ONNX's own tests."""
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode="align_corners", **more
    )
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 9, 7]), ("y", None))]
    known = [numpy_helper.from_array(np.array(scales, np.float32), "s")]
    return helper.make_graph([node], "g", info[:1], info[1:], known)


def attention() -> Any:
    """What a causal mask hides is minus infinity by ONNX's function, the lowest number in ONNX Runtime."""
    shapes = {"q": [1, 2, 4, 8], "k": [1, 2, 6, 8], "v": [1, 2, 6, 8]}
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    out = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "qk")]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "qk"], is_causal=1, qk_matmul_output_mode=2)
    return helper.make_graph([node], "g", info, out)


@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        (resize("cubic", [1, 1, 0.6, 2.3], cubic_coeff_a=-0.5), 14),
        (resize("cubic", [1, 1, 0.6, 2], cubic_coeff_a=-0.5), 21),
        (resize("nearest", [1, 1, 2.125, 0.6], nearest_mode="floor"), 20),
        (attention(), 23),
    ],
    ids=["resize 14", "resize 21", "nearest 20", "attention"],
)
def test_the_reference_decides(graph: Any, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), str(path))
    text, args, results, made = fate(path, 1)
    assert text == "ran"
    assert opinion(path, args, results, made) == "right"


def test_units_apart() -> None:
    got, want = [np.array([1, 255], "uint8")], [np.array([2, 255], "uint8")]
    assert judged(got, want, 1) == "right"
    assert judged(got, want).startswith("wrong: output 0 uint8[2]: 1 of 2 elements")
    with pytest.raises(Unknown):
        judged(got, [[1]])


def test_errors_of_the_tests_are_no_opinion() -> None:
    def fails(error: Exception) -> Exception:
        try:
            raise error
        except Exception as caught:
            return caught

    assert own(fails(KeyError("x")))
    assert not own(fails(RuntimeError("of compiled code")))


def test_numbers_that_overflow() -> None:
    """What a huge weight makes infinite hangs on the order of steps; a number lost without one is a finding."""
    x = relay.var("x", shape=(2,))
    got, want = [np.array([0, 1], "float32")], [np.array([np.nan, 1], "float32")]
    for weight in (1e30, 1.0):
        mod = IRModule.from_expr(relay.Function([x], x * relay.const(np.float32(weight))))
        if weight > 1:
            with pytest.raises(Unknown, match="overflow"):
                weighed(mod, got, want)
        else:
            assert weighed(mod, got, want).startswith("wrong")


def test_old_softmax_has_no_second_opinion(tmp_path: Path) -> None:
    nodes = [helper.make_node("LogSoftmax", ["x"], ["y"])]
    infos = [helper.make_tensor_value_info(n, 1, [2, 3, 4]) for n in "xy"]
    made = helper.make_model(
        helper.make_graph(nodes, "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 6)]
    )
    path = tmp_path / "model.onnx"
    onnx.save(made, str(path))
    with pytest.raises(Unknown, match="today's softmax"):
        of_reference(path, {"x": np.zeros((2, 3, 4), "float32")})
