"""Converters of linear models and support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.ml.common import (
    DOMAIN,
    classified,
    labels_of,
    rows,
    transformed,
    two_classes,
)
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function


def _constant(values: Any) -> Value:
    return Value(array=np.asarray(values, np.float32))


def _linear(node: OnnxNode, x: Value, count: int) -> Value:
    data = rows(node, x)
    weights = np.array(node.get("coefficients"), np.float32).reshape(count, -1)
    out = node.value("nn.dense", data, Value(array=weights))
    offsets = node.get("intercepts")
    return node.value("add", out, _constant(offsets)) if offsets else out


@onnx_op("LinearRegressor", domain=DOMAIN)
def _linear_regressor(node: OnnxNode, x: Value) -> Value:
    return transformed(node, _linear(node, x, node.get("targets", 1)), node.get("post_transform"))


@onnx_op("LinearClassifier", domain=DOMAIN, typed=True)
def _linear_classifier(node: OnnxNode, x: Value) -> list[Value]:
    labels = labels_of(node, "classlabels_strings", "classlabels_ints")
    features = rows(node, x).known_extent(1)
    scores = _linear(node, x, len(node.get("coefficients")) // features)
    how = node.get("post_transform", "NONE")
    if scores.shape[1] == 1 and (labels is None or len(labels) == 2):
        both = two_classes(node, scores, how)
        return [classified(node, both, labels), both]
    return [classified(node, scores, labels), transformed(node, scores, how)]


def _kernel(node: OnnxNode, x: Value, vectors: np.ndarray) -> Value:
    """The kernel of each row with each support vector."""
    kind = node.get("kernel_type", "LINEAR")
    gamma, coef0, degree = node.get("kernel_params") or (0.0, 0.0, 0.0)
    dot = node.value("nn.dense", x, Value(array=vectors))

    def scaled() -> Expr:
        return node.call("add", node.call("multiply", dot, node.scalar(gamma, x)), node.scalar(coef0, x))

    if kind == "LINEAR":
        return dot
    if kind == "POLY":
        return node.value("power", scaled(), node.scalar(degree, x))
    if kind == "SIGMOID":
        return node.value("tanh", scaled())
    if kind == "RBF":
        own = node.call("sum", node.call("multiply", x, x), axis=(1,), keepdims=True)
        other = Value(array=(vectors * vectors).sum(1).astype(np.float32))
        far = node.call("subtract", node.call("add", own, other), node.call("multiply", dot, node.scalar(2, x)))
        return node.value("exp", node.call("multiply", far, node.scalar(-gamma, x)))
    raise node.refuse("kernel_type", kind, "LINEAR, POLY, RBF, SIGMOID")


@onnx_op("SVMRegressor", domain=DOMAIN)
def _svm_regressor(node: OnnxNode, x: Value) -> Tensor:
    data, count = rows(node, x), node.get("n_supports", 0)
    coefficients = np.array(node.get("coefficients"), np.float32)
    rho = float(node.get("rho")[0])
    if count:
        vectors = np.array(node.get("support_vectors"), np.float32).reshape(count, -1)
        total = node.value("nn.dense", _kernel(node, data, vectors), Value(array=coefficients.reshape(1, -1)))
    else:
        total = node.value("nn.dense", data, Value(array=coefficients.reshape(1, -1)))
    total = node.value("add", total, node.scalar(rho, data))
    if node.get("one_class", 0):
        above = node.call("greater", total, node.scalar(0, data))
        return node.call("where", above, node.scalar(1, data), node.scalar(-1, data))
    return transformed(node, total, node.get("post_transform"))


@onnx_op("SVMClassifier", domain=DOMAIN, typed=True)
def _svm_classifier(node: OnnxNode, x: Value) -> list[Value]:
    data = rows(node, x)
    labels = labels_of(node, "classlabels_strings", "classlabels_ints")
    counts = node.get("vectors_per_class")
    how = node.get("post_transform", "NONE")
    if not counts:
        weights = np.array(node.get("coefficients"), np.float32).reshape(-1, data.known_extent(1))
        scores = node.value("add", node.call("nn.dense", data, Value(array=weights)), _constant(node.get("rho")[:1]))
        return [classified(node, scores, labels), transformed(node, scores, how)]
    scores, pairs = _decisions(node, data, counts)
    number = len(counts)
    # The label is the class with the most votes, not with the highest probability.
    made = classified(node, _votes(node, scores, pairs, number), labels)
    if node.get("prob_a"):
        return [made, transformed(node, _probabilities(node, scores, pairs, number), how)]
    return [made, two_classes(node, scores, how) if number == 2 else transformed(node, scores, how)]


def _decisions(node: OnnxNode, data: Value, counts: list[int]) -> tuple[Value, list[tuple[int, int]]]:
    """(the decision of each pair of classes, the pairs)."""
    total, number = sum(counts), len(counts)
    vectors = np.array(node.get("support_vectors"), np.float32).reshape(total, -1)
    coefficients = np.array(node.get("coefficients"), np.float32).reshape(number - 1, total)
    rho = node.get("rho")
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    pairs = [(i, j) for i in range(number) for j in range(i + 1, number)]
    weights = np.zeros((len(pairs), total), np.float32)
    for row, (i, j) in zip(weights, pairs, strict=True):
        a, b = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        row[a], row[b] = coefficients[j - 1, a], coefficients[i, b]
    found = node.call("nn.dense", _kernel(node, data, vectors), Value(array=weights))
    return node.value("add", found, _constant(rho)), pairs


def _votes(node: OnnxNode, scores: Value, pairs: list[tuple[int, int]], number: int) -> Value:
    """The number of votes for each class."""
    for_first = np.zeros((number, len(pairs)), np.float32)
    for_second = np.zeros((number, len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        for_first[i, k] = for_second[j, k] = 1
    won = node.cast(node.call("greater", scores, node.scalar(0, scores)), "float32")
    lost = node.call("subtract", node.scalar(1, won), won)
    first = node.call("nn.dense", won, Value(array=for_first))
    return node.value("add", first, node.call("nn.dense", lost, Value(array=for_second)))


def _probabilities(node: OnnxNode, scores: Value, pairs: list[tuple[int, int]], number: int) -> Value:
    """Class probabilities from those of pairs (Wu, Lin and Weng 2004), by as many iterations as in the library that trained them."""
    a, b = _constant(node.get("prob_a")), _constant(node.get("prob_b"))
    line = node.call("add", node.call("multiply", scores, a), b)
    each = node.value("sigmoid", node.call("negative", line))
    each = node.value("clip", each, a_min=1e-7, a_max=1 - 1e-7)
    return node.host_call("svm.coupled", [each], [scores.shape[0], number], "float32", {"pairs": pairs})


@host_function("svm.coupled")
def _coupled(config: Config, each: np.ndarray) -> np.ndarray:
    pairs = config["pairs"]
    number = max([j for _, j in pairs]) + 1
    out = np.zeros((len(each), number), np.float32)
    for row, found in zip(each.astype(np.float64), out, strict=True):
        r = np.zeros((number, number))
        for p, (i, j) in zip(row, pairs, strict=True):
            r[i, j], r[j, i] = p, 1 - p
        q = -r.T * r
        np.fill_diagonal(q, (r.T**2).sum(1) - np.diag(r.T**2))
        p = np.full(number, 1 / number)
        for _ in range(max(100, number)):
            qp = q @ p
            if np.abs(qp - p @ qp).max() < 0.005 / number:
                break
            for t in range(number):
                qp = q @ p
                step = (p @ qp - qp[t]) / q[t, t]
                p[t] += step
                p /= 1 + step
        found[:] = p
    return out
