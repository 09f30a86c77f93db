"""Random numbers without state: Threefry keys, and numbers drawn with them. Equal keys give equal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import OPAQUE, Made, OpCard, Operand, as_expr, need
from tilewright.relay.cards.relations import dims, may_equal, tensor, tensor_type
from tilewright.relay.expr import Constant, Expr, const

MASK = (1 << 64) - 1


def threefry_key(seed: int) -> Constant:
    """A Threefry key, 10 words of 64 bits, from a seed of up to 256 bits."""
    words = np.zeros(10, np.uint64)
    words[:4] = np.frombuffer(int(seed).to_bytes(32, "little", signed=seed < 0), np.uint64)
    words[8] = np.uint64(1 << 63)
    return const(words)


def np_threefry(key: Sequence[int], counter: Sequence[int]) -> list[int]:
    """Four words of Threefry-4x64 with 20 rounds."""
    from tilewright.topi.random.threefry import PARITY, ROTATIONS, ROUNDS

    parity = PARITY
    for k in key:
        parity ^= k
    keys = [*key, parity]
    x = [(c + k) & MASK for c, k in zip(counter, keys, strict=False)]

    def rotated(v: int, n: int) -> int:
        return (v << n | v >> (64 - n)) & MASK

    for r in range(ROUNDS):
        first, second = ROTATIONS[r % 8]
        x[0] = (x[0] + x[1]) & MASK
        x[1] = rotated(x[1], first) ^ x[0]
        x[2] = (x[2] + x[3]) & MASK
        x[3] = rotated(x[3], second) ^ x[2]
        x[1], x[3] = x[3], x[1]
        if r % 4 == 3:
            s = (r + 1) // 4
            x = [(v + keys[(s + i) % 5]) & MASK for i, v in enumerate(x)]
            x[3] = (x[3] + s) & MASK
    return x


def np_generate(key: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(the key with its counter advanced, `count` words)."""
    k = [int(v) for v in key]
    blocks = -(-count // 4)
    words: list[int] = []
    for i in range(blocks):
        low = (k[4] + i) & MASK
        words += np_threefry(k[:4], [low, (k[5] + (low < k[4])) & MASK, k[6], k[7]])
    after = key.copy()
    low = (k[4] + blocks) & MASK
    after[4], after[5] = low, (k[5] + (low < k[4])) & MASK
    return after, np.array(words[:count], np.uint64)


def np_unit(words: np.ndarray, dtype: str, low_open: bool = False) -> np.ndarray:
    """Numbers in [0, 1), or in (0, 1] with `low_open`."""
    real: Any = np.float64 if dtype == "float64" else np.float32
    bits = 53 if dtype == "float64" else 24
    part = (words >> np.uint64(64 - bits)).astype(np.int64) + int(low_open)
    return np.asarray(part.astype(real) * real(2.0**-bits))


KEY = threefry_key(7).value


def key_type(key: TensorType) -> TensorType:
    """The type of a key."""
    t = tensor(key, 0, 1)
    need(
        t.dtype == "uint64" and may_equal(dims(t)[0], 10),
        "a key is 10 numbers of uint64",
        f"it is {t}",
        0,
        "Use random.threefry_key",
    )
    return t


class threefry_generate(OpCard, key="random.threefry_generate"):
    """(the next key, random uint64 words of `out_shape`)."""

    out_shape: tuple[int, ...]
    outputs = 2
    flat = True
    fuse = OPAQUE
    samples = [((KEY,), {"out_shape": (2, 3)})]

    @classmethod
    def make(cls, key: Operand, shape: Operand, span: BaseSpan | None = None) -> Made:
        """shape: the shape of the words."""
        return cls.call([key], {"out_shape": shape}, span)

    def infer(self, key: TensorType) -> Type:
        return TupleType((key_type(key), tensor_type(self.out_shape, "uint64")))

    def compute(self, key: te.Tensor) -> list[te.Tensor]:
        return topi.random.threefry_generate(key, self.out_shape)

    def ref(self, key: np.ndarray) -> tuple[np.ndarray, ...]:
        after, words = np_generate(key, int(np.prod(self.out_shape)))
        return after, words.reshape(self.out_shape)


class threefry_split(OpCard, key="random.threefry_split"):
    """Two keys, independent of each other and of the numbers that the given key generates."""

    outputs = 2
    flat = True
    fuse = OPAQUE
    samples = [((KEY,), {})]

    def infer(self, key: TensorType) -> Type:
        t = key_type(key)
        return TupleType((t, t))

    def compute(self, key: te.Tensor) -> list[te.Tensor]:
        return topi.random.threefry_split(key)

    def ref(self, key: np.ndarray) -> tuple[np.ndarray, ...]:
        k = [int(v) for v in key]
        made = []
        for branch in range(2):
            out = np.zeros(10, np.uint64)
            out[:4] = np.array(np_threefry(k[:4], [*k[4:7], k[7] ^ (2 + branch) << 62]), np.uint64)
            out[8] = np.uint64(1 << 63)
            made.append(out)
        return tuple(made)


def scalar(value: Any, dtype: str) -> Expr:
    """A number as an expression."""
    return value if isinstance(value, Expr) else as_expr(np.array(value, dtype))


class Drawn(OpCard):
    """Random numbers of a distribution with two scalar parameters."""

    out_shape: tuple[int, ...] = ()
    out_dtype: str = "float32"
    outputs = 2
    fuse = OPAQUE
    undifferentiable = "draw from the distribution with parameters 0 and 1, and scale and shift what is drawn"
    tolerance = 1e-5

    def typed(self, key: TensorType, first: TensorType, second: TensorType) -> Type:
        """The types of the key and of the numbers."""
        tensor(first, 1, 0)
        tensor(second, 2, 0)
        need(self.out_dtype in ("float32", "float64"), "dtype must be float32 or float64", f"it is {self.out_dtype}")
        return TupleType((key_type(key), tensor_type(self.out_shape, self.out_dtype)))


class uniform(Drawn, key="random.uniform"):
    """(the next key, uniformly distributed numbers in [low, high), of `shape`)."""

    samples = [
        ((KEY, np.array(0, np.float32), np.array(1, np.float32)), {"out_shape": (5,)}),
        ((KEY, np.array(-2, np.float64), np.array(3, np.float64)), {"out_shape": (2, 3), "out_dtype": "float64"}),
    ]

    @classmethod
    def make(
        cls,
        key: Operand,
        shape: Operand,
        dtype: str = "float32",
        low: Operand = 0.0,
        high: Operand = 1.0,
        span: BaseSpan | None = None,
    ) -> Made:
        """low and high are numbers or scalar expressions."""
        return cls.call([key, scalar(low, dtype), scalar(high, dtype)], {"out_shape": shape, "out_dtype": dtype}, span)

    def infer(self, key: TensorType, low: TensorType, high: TensorType) -> Type:
        return self.typed(key, low, high)

    def compute(self, key: te.Tensor, low: te.Tensor, high: te.Tensor) -> list[te.Tensor]:
        return topi.random.uniform(key, low, high, self.out_shape, self.out_dtype)

    def ref(self, key: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
        after, words = np_generate(key, int(np.prod(self.out_shape)))
        unit = np_unit(words, self.out_dtype).reshape(self.out_shape)
        return after, (low + unit * (high - low)).astype(self.out_dtype)


class normal(Drawn, key="random.normal"):
    """(the next key, normally distributed numbers with mean `mean` and standard deviation `scale`, of `shape`)."""

    tolerance = 1e-4
    samples = [
        ((KEY, np.array(0, np.float32), np.array(1, np.float32)), {"out_shape": (5,)}),
        ((KEY, np.array(-2, np.float64), np.array(3, np.float64)), {"out_shape": (2, 3), "out_dtype": "float64"}),
    ]

    @classmethod
    def make(
        cls,
        key: Operand,
        shape: Operand,
        dtype: str = "float32",
        mean: Operand = 0.0,
        scale: Operand = 1.0,
        span: BaseSpan | None = None,
    ) -> Made:
        """mean and scale are numbers or scalar expressions."""
        return cls.call(
            [key, scalar(mean, dtype), scalar(scale, dtype)], {"out_shape": shape, "out_dtype": dtype}, span
        )

    def infer(self, key: TensorType, mean: TensorType, scale: TensorType) -> Type:
        return self.typed(key, mean, scale)

    def compute(self, key: te.Tensor, mean: te.Tensor, scale: te.Tensor) -> list[te.Tensor]:
        return topi.random.normal(key, mean, scale, self.out_shape, self.out_dtype)

    def ref(self, key: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
        count = int(np.prod(self.out_shape))
        after, words = np_generate(key, 2 * count)
        radius = np.sqrt(-2 * np.log(np_unit(words[:count], self.out_dtype, low_open=True)))
        angle = 2 * np.pi * np_unit(words[count:], self.out_dtype)
        drawn = (radius * np.cos(angle)).astype(self.out_dtype).reshape(self.out_shape)
        return after, (mean + drawn * scale).astype(self.out_dtype)


class multinomial(OpCard, key="random.multinomial"):
    """(the next key, int32 indices (..., num_samples)), drawn with the weights along the last axis of `probs`, which need not add
    up to 1."""

    num_samples: int = 1
    outputs = 2
    flat = True
    fuse = OPAQUE
    samples = [
        ((KEY, np.array([0.2, 0.0, 0.5, 0.3], np.float32)), {"num_samples": 6}),
        ((KEY, np.array([[1, 3], [2, 0]], np.float32)), {"num_samples": 3}),
    ]

    def infer(self, key: TensorType, probs: TensorType) -> Type:
        p = tensor(probs, 1)
        need(len(p.shape) > 0 and p.dtype.is_float, "probs must be floats with an axis of weights", f"they are {p}", 1)
        return TupleType((key_type(key), tensor_type((*p.shape[:-1], self.num_samples), "int32")))

    def compute(self, key: te.Tensor, probs: te.Tensor) -> list[te.Tensor]:
        return topi.random.multinomial(key, probs, self.num_samples)

    def ref(self, key: np.ndarray, probs: np.ndarray) -> tuple[np.ndarray, ...]:
        shape = (*probs.shape[:-1], self.num_samples)
        after, words = np_generate(key, int(np.prod(shape)))
        seen = np.add.accumulate(probs, -1, probs.dtype)
        wanted = np_unit(words, str(probs.dtype)).astype(probs.dtype).reshape(shape) * seen[..., -1:]
        drawn = (seen[..., None, :-1] <= wanted[..., None]).sum(-1)
        return after, drawn.astype(np.int32)
