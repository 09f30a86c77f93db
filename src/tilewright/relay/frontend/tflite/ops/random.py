"""Converters of random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.relay.op.arithmetic.randomness import threefry_key


def drawn(node: Node, shape: Sequence[int], low: float = 0.0) -> Value:
    """Uniform numbers between `low` and 1. Runs repeat, since the model has the seeds."""
    seed = (int(node.get("seed")) * 0x9E3779B97F4A7C15 + int(node.get("seed2"))) % (1 << 63)
    return node.calls("random.uniform", threefry_key(seed), shape=tuple(shape), dtype="float32", low=low, high=1.0)[1]


@tflite_op("RANDOM_UNIFORM")
def _random_uniform(node: Node, shape: Value) -> Value:
    return drawn(node, [int(n) for n in node.whole(shape, "shape").reshape(-1)])


@tflite_op("RANDOM_STANDARD_NORMAL")
def _random_normal(node: Node, shape: Value) -> Value:
    extents = [int(n) for n in node.whole(shape, "shape").reshape(-1)]
    u, v = node.calls("split", drawn(node, [2, *extents], 1e-7), indices_or_sections=2, axis=0)
    radius = node.call("sqrt", node.call("multiply", node.call("log", u), -2.0))
    return node.reshape(node.call("multiply", radius, node.call("cos", node.call("multiply", v, 2 * np.pi))), extents)


@tflite_op("MULTINOMIAL")
def _multinomial(node: Node, logits: Value, count: Value) -> Value:
    batch, classes = node.static(logits)
    number = int(node.whole(count, "num_samples").reshape(-1)[0])
    u = drawn(node, [batch, number, classes], 1e-7)
    gumbel = node.call("negative", node.call("log", node.call("negative", node.call("log", u))))
    return node.call("argmax", node.call("add", node.reshape(logits, [batch, 1, classes]), gumbel), axis=(2,))
