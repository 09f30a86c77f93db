"""Classifiers of ai.onnx.ml, against ONNX Runtime, and ONNX's reference where that does no softmax of two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tilewright.relay.frontend.onnx.program import Program

random = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def model(op: str, columns: list[int], outputs: list[int], **attrs: Any) -> ModelProto:
    """A node of ai.onnx.ml over five rows of each input, with outputs of these types."""
    inputs = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [5, n]) for k, n in enumerate(columns)]
    results = [helper.make_tensor_value_info(f"y{k}", t, None) for k, t in enumerate(outputs)]
    node = helper.make_node(op, [i.name for i in inputs], [r.name for r in results], domain="ai.onnx.ml", **attrs)
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], op, inputs, results), opset_imports=opsets, ir_version=8)


def check(proto: ModelProto, by_reference: bool = False) -> None:
    rows = {i.name: normal(*[d.dim_value for d in i.type.tensor_type.shape.dim]) for i in proto.graph.input}
    runtime = ReferenceEvaluator(proto) if by_reference else onnxruntime.InferenceSession(proto.SerializeToString())
    for got, want in zip(Program(proto)(rows), runtime.run(None, rows), strict=True):
        if np.asarray(want).dtype.kind in "OU":
            assert list(got) == list(want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def machine(kernel: str, number: int, probabilities: bool, how: str) -> ModelProto:
    pairs = number * (number - 1) // 2
    sigmoids = {"prob_a": -abs(normal(pairs)), "prob_b": normal(pairs)} if probabilities else {}
    return model(
        "SVMClassifier", [4], [TensorProto.INT64, TensorProto.FLOAT], kernel_type=kernel, kernel_params=[0.5, 0.3, 2.0],
        support_vectors=normal(8 * number), vectors_per_class=[2] * number, coefficients=normal(2 * number * (number - 1)),
        rho=normal(pairs), classlabels_ints=[7, 8, 9][:number], post_transform=how, **sigmoids,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("number", [2, 3])
def test_support_vectors(kernel: str, number: int) -> None:
    for how in ("NONE", "LOGISTIC"):
        check(machine(kernel, number, False, how))
    for how in ("NONE", "LOGISTIC", "SOFTMAX"):
        check(machine(kernel, number, True, how))


@pytest.mark.parametrize("how", ["SOFTMAX", "SOFTMAX_ZERO"])
def test_softmax_of_two_classes_that_share_a_score(how: str) -> None:
    both: dict[str, Any] = {"classlabels_strings": ["a", "b"], "post_transform": how}
    outputs = [TensorProto.STRING, TensorProto.FLOAT]
    check(model("LinearClassifier", [4], outputs, coefficients=normal(4), intercepts=[0.1], **both), by_reference=True)
    for weights in ([0.7, -0.4], [0.7, 0.4]):
        stump = model(
            "TreeEnsembleClassifier", [4], outputs, nodes_treeids=[3] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
            nodes_modes=["BRANCH_LT", "LEAF", "LEAF"], nodes_values=[0.1, 0.0, 0.0], nodes_truenodeids=[1, 0, 0],
            nodes_falsenodeids=[2, 0, 0], class_treeids=[3, 3], class_nodeids=[1, 2], class_ids=[0, 0], class_weights=weights, **both,
        )  # fmt: skip
        check(stump, by_reference=True)


def test_inputs_narrower_and_wider_than_their_part() -> None:
    check(model("FeatureVectorizer", [4, 2], [TensorProto.FLOAT], inputdimensions=[3, 4]))
