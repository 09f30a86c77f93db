"""Functions for classifiers and regressors: scores, their transforms, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.kinds import carried
from tilewright.relay.frontend.onnx.value import OnnxNode, Value
from tilewright.support.errors import DiagnosticError

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def table(values: Any, dtype: Any = None) -> Value:
    """A known tensor of strings or numbers."""
    array = np.asarray(values, object if isinstance(values[0], str) else dtype)
    held, kind = carried(array)
    return Value(array=held, kind=kind)


def plain(v: Value) -> Value:
    """The carrier of a value."""
    return v.plain()


def rows(node: OnnxNode, x: Value, dtype: str = "float32") -> Value:
    """Features as rows: a single example becomes one row. Raises DiagnosticError for more than two axes."""
    if not 1 <= x.ndim <= 2:
        raise DiagnosticError(f"its input has {x.ndim} axes; features have one, or a row for each example")
    wide = node.cast(x, dtype)
    return node.value("expand_dims", wide, axis=0) if wide.ndim == 1 else wide


def transformed(node: OnnxNode, scores: Value, name: Any) -> Value:
    """Scores after `post_transform`, given by name or number."""
    how = TRANSFORMS[name] if isinstance(name, int) else str(name or "NONE")
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return node.value("sigmoid", scores)
    if how == "SOFTMAX":
        return node.value("nn.softmax", scores, axis=-1)
    if how == "SOFTMAX_ZERO":
        # Zero scores stay zero.
        zero = node.call("equal", scores, node.scalar(0, scores))
        held = node.call("where", zero, node.scalar(-np.inf, scores), scores)
        top = node.call("max", scores, axis=-1, keepdims=True)
        powers = node.call("exp", node.call("subtract", held, top))
        return node.value("divide", powers, node.call("sum", powers, axis=-1, keepdims=True))
    if how == "PROBIT":
        return _probit(node, scores)
    raise node.refuse("post_transform", how, ", ".join(TRANSFORMS))


def _probit(node: OnnxNode, p: Value) -> Value:
    """sqrt(2) * inverse erf of 2p - 1, by Winitzki's approximation."""

    def f(key: str, *args: object) -> Expr:
        return node.call(key, *[node.scalar(a, p) if isinstance(a, float) else a for a in args])

    x = f("subtract", f("multiply", p, 2.0), 1.0)
    log = f("log", f("subtract", 1.0, f("multiply", x, x)))
    half = f("add", f("multiply", log, 0.5), 2 / (np.pi * 0.147))
    root = f("sqrt", f("subtract", f("multiply", half, half), f("divide", log, 0.147)))
    size = f("sqrt", f("multiply", f("subtract", root, half), 2.0))
    return Value(f("multiply", f("sign", x), size))


def labels_of(node: OnnxNode, *names: str) -> list[Any] | None:
    """The class labels: strings or integers."""
    for name in names:
        if node.get(name):
            return list(node.get(name))
    return None


def classified(node: OnnxNode, scores: Value, labels: list[Any] | None) -> Value:
    """The label of the largest score of each row."""
    best = node.value("argmax", scores, axis=1, keepdims=False)
    if labels is None:
        return node.cast(best, "int64")
    names = table(labels, np.int64)
    return Value(node.call("take", plain(names), node.cast(best, "int32"), axis=0), kind=names.kind)


def two_classes(node: OnnxNode, score: Value, how: Any, probability: bool = False) -> Value:
    """The transformed scores of both classes, from the score of the second: -s and s, or for a probability p (as with PROBIT) 1 - p
    and p."""
    whole = node.scalar(int(probability or how == "PROBIT"), score)
    both = node.value("concatenate", [node.call("subtract", whole, score), score], axis=1)
    return transformed(node, both, how)
