"""Converters of tree ensembles: all rows descend all trees one level at a time, by look-ups in tables of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import need_few
from tilewright.relay.frontend.onnx.ml.common import DOMAIN, classified, labels_of, rows, transformed, two_classes
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import DiagnosticError

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
HOLDS = {
    "BRANCH_LEQ": (1, 1, 0), "BRANCH_LT": (1, 0, 0), "BRANCH_GTE": (0, 1, 1), "BRANCH_GT": (0, 0, 1), "BRANCH_EQ": (0, 1, 0),
    "BRANCH_NEQ": (1, 0, 1), "LEAF": (0, 0, 0),
}  # fmt: skip
"""Mode -> whether it holds for a value that is less than, equal to, or greater than the threshold."""


AGGREGATES: dict[str, tuple[Callable[[list[float]], float], float, str]] = {
    "SUM": (sum, 0.0, "sum"),
    "AVERAGE": (sum, 0.0, "sum"),
    "MIN": (min, np.inf, "min"),
    "MAX": (max, -np.inf, "max"),
}
"""Aggregate -> (function of the votes of a leaf for a target, value without votes, operator over the trees)."""


MOST_VOTES = 1 << 26
"""The largest number of elements of the table of leaves and targets."""


class Forest:
    """Nodes of all trees in lists. Leaves are their own children, and have votes for targets."""

    def __init__(self, targets: int) -> None:
        self.features: list[int] = []
        self.splits: list[float] = []
        self.modes: list[str] = []
        self.missing: list[int] = []
        self.yes: list[int] = []
        self.no: list[int] = []
        self.votes: list[dict[int, list[float]]] = []
        self.roots: list[int] = []
        self.targets = targets

    def add(self, feature: int, split: float, mode: str, missing: int = 0) -> int:
        """Adds a node. It is its own child until its branches are set."""
        place = len(self.modes)
        self.features.append(feature)
        self.splits.append(split)
        self.modes.append(mode)
        self.missing.append(missing)
        self.yes.append(place)
        self.no.append(place)
        self.votes.append({})
        return place

    def depth(self) -> int:
        """The largest number of steps from a root to a leaf. Raises ValueError for cycles."""
        level, steps = set(self.roots), 0
        while True:
            level = {t for n in level if self.modes[n] != "LEAF" for t in (self.yes[n], self.no[n])}
            if not level:
                return steps
            steps += 1
            if steps > len(self.modes):
                raise ValueError("the nodes of a tree lead back to themselves")

    def scores(self, node: OnnxNode, x: Value, aggregate: str) -> Value:
        """The aggregated votes (rows, targets) of the leaves that rows reach; 0 without votes."""

        def look(values: Any, dtype: Any, at: Any) -> Expr:
            return node.call("take", Value(array=np.asarray(values, dtype)), at, axis=0)

        start = Value(array=np.array(self.roots, np.int32).reshape(1, -1))
        column = node.call("strided_slice", x, begin=(0,), end=(1,), strides=(1,), axes=(1,))
        width = x.shape[1]
        tested = [f for f, m in zip(self.features, self.modes, strict=True) if m != "LEAF"]
        absent = [f for f in tested if f < 0 or isinstance(width, int) and f >= width]
        if absent:
            raise DiagnosticError(f"a node tests the feature {absent[0]}, and its input has {width}")
        at: Any = node.call("add", start, node.cast(node.call("zeros_like", column), "int32"))
        table = np.array([HOLDS[m] for m in self.modes])
        for _ in range(self.depth()):
            value = node.call("take", x, look(self.features, np.int32, at), axis=1, batch_dims=1)
            split = look(self.splits, np.dtype(x.dtype), at)
            holds = None
            for k, relation in enumerate(("less", "equal", "greater")):
                part = node.call("logical_and", node.call(relation, value, split), look(table[:, k], bool, at))
                holds = part if holds is None else node.call("logical_or", holds, part)
            if any(self.missing):
                lost = node.call("logical_and", node.call("isnan", value), look(self.missing, bool, at))
                holds = node.call("logical_or", holds, lost)
            after = node.call("where", holds, look(self.yes, np.int32, at), look(self.no, np.int32, at))
            # Each level reads the indices several times: a fused kernel would recompute them each time.
            at = node.call("annotation.stop_fusion", after)
        if aggregate not in AGGREGATES:
            raise node.refuse("aggregate_function", aggregate, ", ".join(AGGREGATES))
        outside = [t for found in self.votes for t in found if not 0 <= t < self.targets]
        if outside:
            raise DiagnosticError(f"a leaf votes for {outside[0]}, and there are {self.targets} targets")
        need_few(len(self.modes) * self.targets, MOST_VOTES, "votes of leaves")
        combine, nothing, key = AGGREGATES[aggregate]
        weights = np.full((len(self.modes), self.targets), nothing)
        for n, found in enumerate(self.votes):
            for t, votes in found.items():
                weights[n, t] = combine(votes)
        total = node.value(key, look(weights, np.dtype(x.dtype), at), axis=(1,))
        if aggregate == "AVERAGE":
            return node.value("divide", total, node.scalar(len(self.roots), x))
        if not nothing:
            return total
        voted = np.array([[t in found for t in range(self.targets)] for found in self.votes], bool)
        return node.value("where", node.call("any", look(voted, bool, at), axis=(1,)), total, node.scalar(0, total))


def _number(node: OnnxNode, name: str) -> Any:
    """Weights or values of an attribute in floats or in a tensor."""
    tensor = node.get(f"{name}_as_tensor")
    return tensor.reshape(-1).tolist() if tensor is not None else node.get(name)


def _classic(node: OnnxNode, targets: int, what: str) -> Forest:
    """The forest of the attributes nodes_* and target_* or class_*."""
    forest = Forest(targets)
    trees, ids = node.get("nodes_treeids"), node.get("nodes_nodeids")
    modes, values = node.get("nodes_modes"), _number(node, "nodes_values")
    missing = node.get("nodes_missing_value_tracks_true") or [0] * len(ids)
    places: dict[tuple[int, int], int] = {}
    begun: set[int] = set()
    for k, key in enumerate(zip(trees, ids, strict=True)):
        places[key] = forest.add(node.get("nodes_featureids")[k], values[k], modes[k], missing[k])
        if key[0] not in begun:
            begun.add(key[0])
            forest.roots.append(places[key])
    for k, (tree, n) in enumerate(zip(trees, ids, strict=True)):
        if modes[k] != "LEAF":
            at = places[tree, n]
            forest.yes[at] = places[tree, node.get("nodes_truenodeids")[k]]
            forest.no[at] = places[tree, node.get("nodes_falsenodeids")[k]]
    for tree, n, target, w in zip(
        node.get(f"{what}_treeids"), node.get(f"{what}_nodeids"), node.get(f"{what}_ids"), _number(node, f"{what}_weights"),
        strict=True,
    ):  # fmt: skip
        forest.votes[places[tree, n]].setdefault(target, []).append(w)
    return forest


def _based(node: OnnxNode, scores: Value) -> Value:
    base = _number(node, "base_values")
    return node.value("add", scores, Value(array=np.array(base, scores.dtype))) if base else scores


def _data(node: OnnxNode, x: Value) -> Value:
    return rows(node, x, "float64" if x.dtype == "float64" else "float32")


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def _regressor(node: OnnxNode, x: Value) -> Value:
    forest = _classic(node, node.get("n_targets", 1), "target")
    scores = _based(node, forest.scores(node, _data(node, x), node.get("aggregate_function", "SUM")))
    return node.cast(transformed(node, scores, node.get("post_transform")), "float32")


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN, typed=True)
def _classifier(node: OnnxNode, x: Value) -> list[Value]:
    labels = labels_of(node, "classlabels_strings", "classlabels_int64s")
    count = len(labels) if labels else max(node.get("class_ids")) + 1
    single = count == 2 and len(set(node.get("class_ids"))) == 1
    forest = _classic(node, count, "class")
    scores = forest.scores(node, _data(node, x), "SUM")
    how = node.get("post_transform", "NONE")
    if not single:
        scores = node.cast(_based(node, scores), "float32")
        return [classified(node, scores, labels), transformed(node, scores, how)]
    # Only one of the two classes has weights: its score decides.
    column = node.get("class_ids")[0]
    score = node.value("strided_slice", scores, begin=(column,), end=(column + 1,), strides=(1,), axes=(1,))
    base = _number(node, "base_values")
    if base:
        score = node.value("add", score, node.scalar(base[-1], score))
    probability = how == "NONE" and all([w >= 0 for w in _number(node, "class_weights")])
    both = two_classes(node, node.cast(score, "float32"), how, probability)
    return [classified(node, both, labels), both]


@onnx_op("TreeEnsemble", since=5, domain=DOMAIN)
def _ensemble(node: OnnxNode, x: Value) -> Value:
    forest = Forest(node.get("n_targets"))
    modes = [_mode(m) for m in node.get("nodes_modes").reshape(-1)]
    splits = node.get("nodes_splits").reshape(-1).tolist()
    missing = node.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    targets, weights = node.get("leaf_targetids"), node.get("leaf_weights").reshape(-1).tolist()
    members = _members(node)
    leaves: dict[int, int] = {}
    inner: dict[int, int] = {}

    def leaf(k: int) -> int:
        if k not in leaves:
            leaves[k] = forest.add(0, 0.0, "LEAF")
            forest.votes[leaves[k]][targets[k]] = [weights[k]]
        return leaves[k]

    def branch(k: int, side: str) -> int:
        target = node.get(f"nodes_{side}nodeids")[k]
        return leaf(target) if node.get(f"nodes_{side}leafs")[k] else build(target)

    def build(k: int) -> int:
        if k in inner:
            return inner[k]
        feature = node.get("nodes_featureids")[k]
        if modes[k] != "BRANCH_MEMBER":
            inner[k] = at = forest.add(feature, splits[k], modes[k], missing[k])
            forest.yes[at], forest.no[at] = branch(k, "true"), branch(k, "false")
            return at
        # A chain of comparisons, one for each member of the set.
        chain = [forest.add(feature, v, "BRANCH_EQ", missing[k]) for v in members[k]]
        inner[k] = chain[0]
        yes, no = branch(k, "true"), branch(k, "false")
        for at, after in zip(chain, [*chain[1:], no], strict=True):
            forest.yes[at], forest.no[at] = yes, after
        return chain[0]

    for root in node.get("tree_roots"):
        # A tree of a single leaf is written as a node with this leaf as both children.
        forest.roots.append(build(root))
    names = ("AVERAGE", "SUM", "MIN", "MAX")
    scores = forest.scores(node, _data(node, x), names[node.get("aggregate_function", 1)])
    return transformed(node, scores, node.get("post_transform", 0))


def _mode(number: Any) -> str:
    """The mode of a node. Raises DiagnosticError for an invalid number."""
    if not 0 <= int(number) < len(MODES):
        raise DiagnosticError(f"a node has the mode {int(number)}; there are {len(MODES)}")
    return MODES[int(number)]


def _members(node: OnnxNode) -> dict[int, list[float]]:
    """Node -> its set of members, for the nodes that test membership. NaN separates the sets."""
    modes = node.get("nodes_modes").reshape(-1)
    values = node.get("membership_values")
    places = [k for k, m in enumerate(modes) if _mode(m) == "BRANCH_MEMBER"]
    sets: list[list[float]] = [[]]
    for v in [] if values is None else values.reshape(-1).tolist():
        if np.isnan(v):
            sets.append([])
        else:
            sets[-1].append(v)
    return dict(zip(places, sets, strict=False))
