"""Whole networks of int8 for a Cortex-M7, in Unicorn (make test-micro): LiteRT's bits, and instructions that do not become more."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.micro.micro_networks import ours
from benchmarks.micro.tiny_networks import NETWORKS, Network
from tests.frontend.tflite.ops.writer import Writer, litert
from tests.frontend.tflite.test_integer_lstm import BATCH, FEATURES, FORMS, STEPS
from tests.frontend.tflite.test_integer_lstm import model as lstm

MOST = {"keywords": 5.23e6, "wake_words": 14.0e6, "images": 19.7e6, "anomalies": 0.46e6}
"""Instructions of a run: what `python -m benchmarks micro_networks` shows, and two parts in a hundred."""


@pytest.mark.parametrize("name", list(MOST))
def test_networks(name: str) -> None:
    net = NETWORKS[name]()
    model, sample = net.model(), net.sample()
    figures, found = ours(model, sample)
    np.testing.assert_array_equal(found, litert(model, [sample])[0].reshape(-1))
    assert len(np.unique(found)) > 1
    assert figures["instructions"] <= MOST[name]


def random_network(seed: int) -> Network:
    """Layers of random sizes: places that no tile divides, channels that fill no group, strides, padding."""
    random = np.random.default_rng(seed)
    net = Network(
        "random", (int(random.integers(5, 12)), int(random.integers(5, 12)), int(random.integers(1, 9))), seed
    )
    filters = [4 * int(n) for n in random.integers(1, 4, 3)]
    net.convolution(filters[0], (int(random.integers(1, 5)), int(random.integers(1, 5))), int(random.integers(1, 3)))
    short = net.convolution(filters[0], depthwise=True, stride=int(random.integers(1, 3)))
    other = net.convolution(filters[0], (1, 1), act=0)
    net.add(short, other)
    net.convolution(filters[1], (3, 3), same=False) if min(net.last.shape[:2]) > 3 else net.convolution(filters[1])
    net.pool("max", (1, 1), (1, 1))
    net.pool("average", net.last.shape[:2], net.last.shape[:2])
    net.dense(filters[2] + 1, act=1)
    net.dense(7)
    net.softmax()
    return net


@pytest.mark.parametrize("seed", range(6))
def test_random_layers(seed: int) -> None:
    net = random_network(seed)
    model, sample = net.model(), net.sample()
    _, found = ours(model, sample)
    np.testing.assert_array_equal(found, litert(model, [sample])[0].reshape(-1))


@pytest.mark.parametrize("form", ["plain", "all"])
def test_lstm_steps(form: str) -> None:
    how = FORMS[form]
    model = lstm(3, **how)
    sample = np.random.default_rng(3).integers(-128, 128, (BATCH, STEPS, FEATURES)).astype(np.int8)
    _, found = ours(model, sample)
    wanted = litert(model, [sample])[0].reshape(-1)
    assert len(np.unique(wanted)) > 8
    np.testing.assert_array_equal(found, wanted)


def test_products_of_tensors() -> None:
    writer = Writer(3)
    graph = writer.main
    x = graph.input("int8", (1, 6, 5, 7), (0.03, -7))
    scaled = graph.constant(np.arange(-3, 4, dtype=np.int8).reshape(1, 1, 1, 7), (0.2, 1))
    model = writer.finish(
        graph.op(
            "MUL", [x, scaled], [("int8", (1, 6, 5, 7), (0.04, 3))], {"fused_activation_function": 0}, "MulOptions"
        )
    )
    sample = np.random.default_rng(3).integers(-128, 128, (1, 6, 5, 7)).astype(np.int8)
    _, found = ours(model, sample)
    np.testing.assert_array_equal(found, litert(model, [sample])[0].reshape(-1))
