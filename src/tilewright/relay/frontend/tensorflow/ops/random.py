"""Converters of random numbers. Host functions draw them with NumPy. If the model has seeds, runs repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.host_calls import host_call
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import Function, string_host


def _generator(config: Config, seeds: Sequence[np.ndarray]) -> np.random.Generator:
    """A generator with the seed of the node, or with those that stateless operators take as tensors."""
    if config.get("stateless"):
        return np.random.default_rng([int(v) & 0xFFFFFFFFFFFFFFFF for s in seeds for v in s.reshape(-1).tolist()])
    return np.random.default_rng(config["seed"])


def _drawn(
    c: NodeCall,
    kind: str,
    shape: Sequence[Dim] | Value,
    dtype: str,
    *given: Value,
    seeds: Sequence[Value] = (),
    **config: Any,
) -> Value:
    """Random numbers of a distribution. given: its operands without the seeds."""
    stateless = bool(seeds)
    seed = None if stateless else int(c.attr("seed", 0)) or int(c.attr("seed2", 0)) or None
    if isinstance(shape, Value):
        shape = c.ints(shape, "shape") if c.is_known(shape) else shape
    computed = {"float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    made = host_call(
        c, f"tf.random.{kind}", [*_extent(c, shape), *given, *seeds], shape, computed,
        pure=stateless, seed=seed, stateless=stateless, given=len(given), **config,
    )  # fmt: skip
    return c.cast(made, dtype)


def _extent(c: NodeCall, shape: Any) -> list[Value]:
    """The shape as a tensor for the host function."""
    if isinstance(shape, Value):
        return [c.cast(shape, "int64")]
    if all([isinstance(d, int) for d in shape]):
        return [Value(array=np.array(shape, np.int64))]
    return [c.concatenate([c.reshape(c.size(d), [1]) for d in shape], 0)]


def _host(kind: str) -> Callable[[Function], Function]:
    """Registers f(config, generator, shape, *given)."""

    def register(f: Function) -> Function:
        def run(config: Config, shape: np.ndarray, *rest: np.ndarray) -> np.ndarray:
            n = config["given"]
            return np.asarray(f(config, _generator(config, rest[n:]), tuple(shape.tolist()), *rest[:n]))

        run.__module__ = f.__module__
        string_host(f"tf.random.{kind}")(run)
        return f

    return register


@_host("uniform")
def _run_uniform(config: Config, g: np.random.Generator, shape: Any) -> Any:
    return g.random(shape, np.float32)


@_host("normal")
def _run_normal(config: Config, g: np.random.Generator, shape: Any) -> Any:
    return g.standard_normal(shape)


@_host("truncated")
def _run_truncated(config: Config, g: np.random.Generator, shape: Any) -> Any:
    return _within(g, shape, -2.0, 2.0)


def _within(g: np.random.Generator, shape: Any, low: Any, high: Any) -> Any:
    """Standard normal numbers between two bounds, by rejection."""
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    made = g.standard_normal(shape)
    for _ in range(1000):
        out = (made < low) | (made > high)
        if not out.any():
            return made
        made = np.where(out, g.standard_normal(shape), made)
    return np.clip(made, low, high)


@_host("integers")
def _run_integers(config: Config, g: np.random.Generator, shape: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return g.integers(low, high, shape)


@_host("bits")
def _run_bits(config: Config, g: np.random.Generator, shape: Any) -> Any:
    info = np.iinfo(config["type"])
    return g.integers(info.min, info.max, shape, info.dtype, endpoint=True)


@_host("shuffle")
def _run_shuffle(config: Config, g: np.random.Generator, shape: Any) -> np.ndarray:
    return g.permutation(shape[0])


@_host("classes")
def _run_classes(config: Config, g: np.random.Generator, shape: Any, logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.stack([g.choice(len(w), shape[1], p=w) for w in weights]).reshape(shape)


@_host("gamma")
def _run_gamma(config: Config, g: np.random.Generator, shape: Any, alpha: np.ndarray) -> np.ndarray:
    return g.standard_gamma(alpha.astype(np.float64), shape)


@_host("poisson")
def _run_poisson(config: Config, g: np.random.Generator, shape: Any, rate: np.ndarray) -> np.ndarray:
    return g.poisson(rate, shape)


@_host("binomial")
def _run_binomial(
    config: Config, g: np.random.Generator, shape: Any, counts: np.ndarray, probs: np.ndarray
) -> np.ndarray:
    return g.binomial(counts.astype(np.int64), probs, shape)


@_host("parameterized")
def _run_parameterized(config: Config, g: np.random.Generator, shape: Any, *parts: np.ndarray) -> Any:
    means, deviations, low, high = [p.reshape(*p.shape, *[1] * (len(shape) - p.ndim)) for p in parts]
    return _within(g, shape, (low - means) / deviations, (high - means) / deviations) * deviations + means


PLAIN = {"Uniform": "uniform", "Normal": "normal", "TruncatedNormal": "truncated"}


@tf_op("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def _random(c: NodeCall, shape: Value) -> Value:
    kind = {"RandomUniform": "uniform", "RandomStandardNormal": "normal"}.get(c.op, "truncated")
    return _drawn(c, kind, shape, c.attr("dtype", "float32"))


@tf_op("RandomUniformInt")
def _random_integers(c: NodeCall, shape: Value, low: Value, high: Value) -> Value:
    return _drawn(c, "integers", shape, low.dtype, low, high)


@tf_op(
    "StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformV2", "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
)  # fmt: skip
def _stateless(c: NodeCall, shape: Value, *seeds: Value) -> Value:
    kind = PLAIN[c.op.removeprefix("Stateless").removeprefix("Random").removesuffix("V2")]
    # In the newer operators, the last tensor is the algorithm.
    return _drawn(c, kind, shape, c.attr("dtype", "float32"), seeds=seeds[:2])


@tf_op("StatelessRandomUniformInt", "StatelessRandomUniformIntV2")
def _stateless_integers(c: NodeCall, shape: Value, *rest: Value) -> Value:
    *seeds, low, high = rest
    return _drawn(c, "integers", shape, low.dtype, low, high, seeds=seeds[:2])


@tf_op("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2")
def _stateless_bits(c: NodeCall, shape: Value, *seeds: Value) -> Value:
    kind = c.attr("dtype", "uint64")
    return _drawn(c, "bits", shape, kind, seeds=seeds[:2], type=numpy_dtype(kind).name)


@tf_op("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _key_counter(c: NodeCall, seed: Value) -> list[Value]:
    words = c.cast(c.reshape(seed, [2]), "uint64")
    made = [c.cut(words, 0, 0, 1), words]
    return [*made, Value(array=np.array(1, np.int32))] if c.op.endswith("Alg") else made


@tf_op("StatelessRandomGetAlg")
def _algorithm(c: NodeCall) -> Value:
    return Value(array=np.array(1, np.int32))


@tf_op("RandomShuffle")
def _shuffle(c: NodeCall, x: Value) -> Value:
    return c.call("take", x, _drawn(c, "shuffle", x.shape[:1], "int64"), axis=0)


@tf_op("StatelessShuffle")
def _stateless_shuffle(c: NodeCall, x: Value, *seeds: Value) -> Value:
    return c.call("take", x, _drawn(c, "shuffle", x.shape[:1], "int64", seeds=seeds[:2]), axis=0)


@tf_op("Multinomial", "StatelessMultinomial")
def _multinomial(c: NodeCall, logits: Value, count: Value, *seeds: Value) -> Value:
    shape = [logits.shape[0], int(c.number_of(count, "num_samples"))]
    return _drawn(c, "classes", shape, c.attr("output_dtype", "int64"), logits, seeds=seeds)


@tf_op("RandomGamma")
def _gamma(c: NodeCall, shape: Value, alpha: Value) -> Value:
    return _drawn(c, "gamma", [*c.ints(shape, "shape"), *alpha.shape], alpha.dtype, alpha)


@tf_op("StatelessRandomGammaV2")
def _stateless_gamma(c: NodeCall, shape: Value, seed: Value, alpha: Value) -> Value:
    return _drawn(c, "gamma", shape, alpha.dtype, alpha, seeds=[seed])


@tf_op("RandomPoisson", "RandomPoissonV2")
def _poisson(c: NodeCall, shape: Value, rate: Value) -> Value:
    return _drawn(c, "poisson", [*c.ints(shape, "shape"), *rate.shape], c.attr("dtype", rate.dtype), rate)


@tf_op("StatelessRandomPoisson")
def _stateless_poisson(c: NodeCall, shape: Value, seed: Value, rate: Value) -> Value:
    return _drawn(c, "poisson", shape, c.attr("dtype", rate.dtype), rate, seeds=[seed])


@tf_op("StatelessRandomBinomial")
def _stateless_binomial(c: NodeCall, shape: Value, seed: Value, counts: Value, probs: Value) -> Value:
    return _drawn(c, "binomial", shape, c.attr("dtype", "int64"), counts, probs, seeds=[seed])


@tf_op("ParameterizedTruncatedNormal")
def _parameterized(c: NodeCall, shape: Value, *parts: Value) -> Value:
    return _drawn(c, "parameterized", shape, parts[0].dtype, *parts)


@tf_op("RandomCrop")
def _crop(c: NodeCall, x: Value, size: Value) -> Value:
    height, width = c.static(c.ints(size, "size"), "the size of its crop")
    extents = c.static(x.shape[:2], "the size of its image")
    for axis, n in enumerate((height, width)):
        first = _drawn(
            c, "integers", (), "int64", Value(array=np.array(0)), Value(array=np.array(extents[axis] - n + 1))
        )
        x = c.call("take", x, c.call("add", Value(array=np.arange(n)), first), axis=axis)
    return x
