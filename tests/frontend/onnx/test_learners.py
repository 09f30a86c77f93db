"""Classifiers and regressors of ai.onnx.ml, against ONNX Runtime; against ONNX's reference, or what the specification says, where that
does otherwise (docs/onnx.md)."""

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


def stump(op: str, votes: list[tuple[int, int, float]], outputs: list[int], **attrs: Any) -> ModelProto:
    """A tree of two leaves: 1 where the feature is at most 0, else 2; `votes` are (leaf, target or class, weight)."""
    what = "class" if op.endswith("Classifier") else "target"
    leaves, ids, weights = [list(part) for part in zip(*votes, strict=True)]
    given = {"treeids": [0] * len(votes), "nodeids": leaves, "ids": ids, "weights": weights}
    return model(
        op, [1], outputs, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_values=[0.0] * 3,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        **{f"{what}_{k}": v for k, v in given.items()}, **attrs,
    )  # fmt: skip


SIDES = np.array([[-1], [1], [-2], [3], [0]], np.float32)
ON_THE_LEFT = SIDES[:, 0] <= 0


@pytest.mark.parametrize("how, left", [("SUM", 8), ("AVERAGE", 8), ("MIN", 3), ("MAX", 5)])
def test_votes_of_a_leaf_for_one_target(how: str, left: float) -> None:
    """All votes of a leaf count; a target without a vote is at its base."""
    proto = stump(
        "TreeEnsembleRegressor", [(1, 0, 3.0), (1, 0, 5.0), (2, 1, 2.0)], [TensorProto.FLOAT], n_targets=2, base_values=[0.5, 0.25],
        aggregate_function=how,
    )  # fmt: skip
    (found,) = Program(proto)({"x0": SIDES})
    np.testing.assert_allclose(found, np.where(ON_THE_LEFT[:, None], [left + 0.5, 0.25], [0.5, 2.25]))


def test_votes_that_are_infinite() -> None:
    proto = stump(
        "TreeEnsembleRegressor",
        [(1, 0, np.inf), (2, 0, 2.0)],
        [TensorProto.FLOAT],
        n_targets=1,
        aggregate_function="MIN",
    )
    np.testing.assert_array_equal(Program(proto)({"x0": SIDES})[0][:, 0], np.where(ON_THE_LEFT, np.inf, 2))


PROBIT = {0.3: -0.5244005, 0.6: 0.2533471}
"""The quantiles of the normal distribution."""


@pytest.mark.parametrize(
    "how, transformed",
    [
        ("LOGISTIC", {v: 1 / (1 + np.exp(-v)) for v in PROBIT}),
        ("SOFTMAX", dict.fromkeys(PROBIT, 1.0)),
        ("SOFTMAX_ZERO", dict.fromkeys(PROBIT, 1.0)),
        ("PROBIT", PROBIT),
    ],
)
def test_transforms_of_a_single_target(how: str, transformed: dict[float, float]) -> None:
    tree = stump(
        "TreeEnsembleRegressor", [(1, 0, 0.3), (2, 0, 0.6)], [TensorProto.FLOAT], n_targets=1, post_transform=how
    )
    np.testing.assert_allclose(
        Program(tree)({"x0": SIDES})[0][:, 0], np.where(ON_THE_LEFT, transformed[0.3], transformed[0.6]), rtol=1e-3
    )
    for op, attrs in (("LinearRegressor", {}), ("SVMRegressor", {"rho": [0.0], "kernel_type": "LINEAR"})):
        line = model(op, [1], [TensorProto.FLOAT], coefficients=[1.0], post_transform=how, **attrs)
        given = np.array([[0.3], [0.6]] * 2 + [[0.3]], np.float32)
        (found,) = Program(line)({"x0": given})
        np.testing.assert_allclose(found[:2, 0], [transformed[0.3], transformed[0.6]], rtol=1e-3)


def test_probit_of_two_classes_that_share_a_score() -> None:
    """The score is the second class's probability, and the label that of the larger one."""
    outputs, both = [TensorProto.INT64, TensorProto.FLOAT], {"post_transform": "PROBIT"}
    votes = [(1, 0, 0.3), (2, 0, 0.6)]
    tree = stump("TreeEnsembleClassifier", votes, outputs, classlabels_int64s=[7, 9], **both)
    label, scores = Program(tree)({"x0": SIDES})
    second = np.where(ON_THE_LEFT, PROBIT[0.3], PROBIT[0.6])
    np.testing.assert_allclose(scores, np.stack([-second, second], 1), rtol=1e-3)
    np.testing.assert_array_equal(label, np.where(ON_THE_LEFT, 7, 9))
    line = model("LinearClassifier", [1], outputs, coefficients=[1.0], classlabels_ints=[7, 9], **both)
    given = np.array([[0.3], [0.6]] * 2 + [[0.3]], np.float32)
    label, scores = Program(line)({"x0": given})
    np.testing.assert_allclose(scores[:2], [[-PROBIT[0.3], PROBIT[0.3]], [-PROBIT[0.6], PROBIT[0.6]]], rtol=1e-3)
    np.testing.assert_array_equal(label, [7, 9, 7, 9, 7])


@pytest.mark.parametrize("opset", [2, 4])
def test_keys_that_are_no_numbers(opset: int) -> None:
    """NaN finds the value of a key that is NaN, and the default where none is."""
    given = np.array([[1, np.nan, 2, -0.0, np.inf]], np.float32).T.copy()
    for keys, missing in (([1.0, np.nan, 0.0], 20), ([1.0, 5.0, 0.0], -1)):
        proto = model(
            "LabelEncoder", [1], [TensorProto.INT64], keys_floats=keys, values_int64s=[10, 20, 30], default_int64=-1
        )
        proto.opset_import[1].version = opset
        np.testing.assert_array_equal(Program(proto)({"x0": given})[0][:, 0], [10, missing, -1, 30, -1])
