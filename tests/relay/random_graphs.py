"""Random relay programs with small shapes, for testing passes numerically."""

from __future__ import annotations

import numpy as np

from tilewright import relay
from tilewright.relay.transform import infer_types


class Generator:
    """Grows a graph of image-like tensors (N, C, H, W) and vectors (N, C) from random operators."""

    def __init__(self, seed: int, size: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.x = relay.var("x", shape=(1, int(self.rng.choice([3, 8, 16, 32])), 6, 6))
        self.y = relay.var("y", shape=(2, 12))
        self.images: list[relay.Expr] = [self.x]
        self.vectors: list[relay.Expr] = [self.y]
        for _ in range(size):
            self.grow()

    def pick(self, pool: list[relay.Expr]) -> relay.Expr:
        return pool[int(self.rng.integers(max(0, len(pool) - 4), len(pool)))]

    def const(self, *shape: int) -> relay.Constant:
        return relay.const((0.5 * self.rng.standard_normal(shape)).astype("float32"))

    @staticmethod
    def shape(e: relay.Expr) -> tuple[int, ...]:
        t = infer_types(e)
        assert isinstance(t, relay.TensorType)
        return t.concrete_shape

    def grow(self) -> None:
        if self.rng.random() < 0.7:
            e = self.image(self.pick(self.images))
            self.images.append(e)
            self.shape(e)
        else:
            e = self.vector(self.pick(self.vectors))
            self.vectors.append(e)
            self.shape(e)

    def image(self, x: relay.Expr) -> relay.Expr:
        n, c, h, w = self.shape(x)
        kind = int(self.rng.integers(0, 17))
        if kind <= 2:
            out = int(self.rng.choice([4, 8, 16, 20]))
            return relay.nn.conv2d(x, self.const(out, c, 3, 3), padding=(1, 1))
        if kind == 3:
            return relay.nn.conv2d(x, self.const(c, 1, 3, 3), padding=(1, 1), groups=c)
        if kind == 4:
            variance = relay.const(self.rng.uniform(0.5, 2, c).astype("float32"))
            return relay.nn.batch_norm(x, self.const(c), self.const(c), self.const(c), variance)[0]
        if kind == 5:
            return relay.nn.relu(x)
        if kind == 6:
            return x + self.const(c, 1, 1)
        if kind == 7:
            return x * self.const(1, c, 1, 1)
        if kind == 8:
            return relay.nn.bias_add(x, self.const(c))
        if kind == 9:
            others = [e for e in self.images if self.shape(e) == (n, c, h, w)]
            return x + others[int(self.rng.integers(0, len(others)))]
        if kind == 10:
            others = [e for e in self.images if self.shape(e)[2:] == (h, w)]
            return relay.concatenate([x, others[int(self.rng.integers(0, len(others)))]], axis=1)
        if kind == 11 and h >= 2 and w >= 2:
            return relay.nn.max_pool2d(x, (2, 2), (1, 1))
        if kind == 12:
            return x * relay.sigmoid(relay.nn.global_avg_pool2d(x))
        if kind == 13:
            return relay.transpose(x, (0, 1, 3, 2))
        if kind == 14:
            return relay.nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), 0.0)
        if kind == 15:
            return relay.reshape(relay.reshape(x, (n, c, h * w)), (n, c, h, w))
        return relay.tanh(x)

    def vector(self, v: relay.Expr) -> relay.Expr:
        n, k = self.shape(v)
        kind = int(self.rng.integers(0, 9))
        if kind <= 1:
            return relay.nn.dense(v, self.const(int(self.rng.choice([5, 16, 32])), k))
        if kind == 2:
            return v + self.const(k)
        if kind == 3:
            return v * self.const(1, k)
        if kind == 4:
            return relay.nn.softmax(v)
        if kind == 5:
            return relay.transpose(relay.transpose(v))
        if kind == 6:
            return relay.cast(relay.cast(v, "float64"), "float32")
        if kind == 7:
            return v - relay.mean(v, axis=1, keepdims=True)
        return relay.nn.relu(v)

    def module(self) -> relay.IRModule:
        outputs = [self.images[-1], self.vectors[-1]]
        if self.rng.random() < 0.5:
            outputs.append(self.pick(self.images))
        return relay.IRModule.from_expr(relay.Function([self.x, self.y], relay.Tuple(outputs)))

    def inputs(self) -> list[np.ndarray]:
        return [self.rng.standard_normal(self.shape(v)).astype("float32") for v in (self.x, self.y)]


def evaluate(mod: relay.IRModule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Results by the debug executor."""
    result = relay.create_executor("debug", mod).evaluate()(*inputs)
    return [r.numpy() for r in (result if isinstance(result, list) else [result])]


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Equal within what reordering float32 arithmetic may change."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-4)
