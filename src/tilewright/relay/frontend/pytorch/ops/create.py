"""Converters of operators that make tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import Operand, small
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name, is_float, kind, result_dtype
from tilewright.relay.frontend.pytorch.ops.movement import broadcast_all
from tilewright.relay.frontend.pytorch.value import Argument, TorchCall, aten
from tilewright.support.errors import OpNotImplemented

LARGEST = 1 << 16


def _dtype(dtype: DType, default: str) -> str:
    return default if dtype is None else dtype_name(dtype)


@aten("zeros", "ones", "empty", "empty_permuted", "empty_strided")
def _filled(c: TorchCall, shape: Sequence[Dim], *rest: object, dtype: DType | None = None, **more: object) -> Value:
    return c.full(shape, 1 if "ones" in c.target else 0, _dtype(dtype, c.home.default_dtype))


@aten("zeros_like", "ones_like", "empty_like")
def _filled_like(c: TorchCall, x: Value, *rest: object, dtype: DType | None = None, **more: object) -> Value:
    return c.full(x.shape, 1 if "ones" in c.target else 0, _dtype(dtype, x.dtype))


@aten("new_zeros", "new_ones", "new_empty", "new_empty_strided")
def _new_filled(
    c: TorchCall, x: Value, shape: Sequence[Dim], *rest: object, dtype: DType | None = None, **more: object
) -> Value:
    return c.full(shape, 1 if "ones" in c.target else 0, _dtype(dtype, x.dtype))


@aten("full")
def _full(c: TorchCall, shape: Sequence[Dim], value: Operand, dtype: DType | None = None, **more: object) -> Value:
    return c.full(shape, value, _dtype(dtype, result_dtype([value], c.home.default_dtype)))


@aten("full_like")
def _full_like(c: TorchCall, x: Value, value: Operand, dtype: DType | None = None, **more: object) -> Value:
    return c.full(x.shape, value, _dtype(dtype, x.dtype))


@aten("new_full")
def _new_full(
    c: TorchCall, x: Value, shape: Sequence[Dim], value: Operand, dtype: DType | None = None, **more: object
) -> Value:
    return c.full(shape, value, _dtype(dtype, x.dtype))


@aten("fill")
def _fill(c: TorchCall, x: Value, value: Operand) -> Value:
    return c.full(x.shape, value, x.dtype)


@aten("zero")
def _zero(c: TorchCall, x: Value) -> Value:
    return c.full(x.shape, 0, x.dtype)


@aten("scalar_tensor")
def _scalar_tensor(c: TorchCall, value: Operand, dtype: DType | None = None, **more: object) -> Value:
    return c.full((), value, _dtype(dtype, c.home.default_dtype))


@aten("tensor")
def _tensor(c: TorchCall, value: Operand, dtype: DType | None = None, **more: object) -> Value:
    if isinstance(value, Value):
        return value if dtype is None else c.cast(value, dtype_name(dtype))
    if isinstance(value, (list, tuple)) and any([isinstance(v, Value) for v in value]):
        return c.call("stack", c.promote(*value), axis=0)
    flat = np.asarray(value)
    default = {"b": "bool", "i": "int64", "f": c.home.default_dtype}.get(flat.dtype.kind)
    if default is None:
        return c.tensor(value, None if dtype is None else dtype_name(dtype))
    return c.cast(Value(array=flat.astype(default)), _dtype(dtype, default))


@aten("arange")
def _arange_to(c: TorchCall, end: Operand, dtype: DType | None = None, **more: object) -> Value:
    return arange(c, 0, end, 1, dtype)


@aten("arange.start")
def _arange_from(c: TorchCall, start: Operand, end: Operand, dtype: DType | None = None, **more: object) -> Value:
    return arange(c, start, end, 1, dtype)


@aten("arange.start_step")
def arange(c: TorchCall, start: Any, end: Any, step: Any = 1, dtype: DType | None = None, **more: object) -> Value:
    whole = not any([isinstance(v, float) for v in (start, end, step)])
    name = _dtype(dtype, "int64" if whole else c.home.default_dtype)
    if all([isinstance(v, (int, float)) for v in (start, end, step)]):
        count = max(math.ceil((end - start) / step), 0)
        if count <= LARGEST:
            made = start + np.arange(count, dtype=np.int64 if whole else np.float64) * step
            return c.cast(Value(array=np.asarray(made)), name)
        return c.call("arange", start=start, stop=end, step=step, dtype=name)
    if isinstance(start, int) and start == 0 and isinstance(step, int) and step == 1:
        return c.call("arange", start=0, stop=end, step=1, dtype=name)
    if not isinstance(step, int):
        raise OpNotImplemented("its step depends on a dimension that is dynamic; a number is supported")
    number = end - start if step == 1 else (end - start + step - (1 if step > 0 else -1)) // step
    places = c.call("arange", start=0, stop=number, step=1, dtype=name)
    scaled = c.call("multiply", places, step) if step != 1 else places
    return c.call("add", scaled, c.tensor(start, name))


@aten("linspace", "logspace")
def _linspace(
    c: TorchCall, start: Any, end: Any, steps: Any, base: Any = 10.0, dtype: DType | None = None, **more: object
) -> Value:
    name = _dtype(dtype, c.home.default_dtype)
    ends = [_at_import(c, v) for v in (start, end)]
    if isinstance(steps, int) and not any([isinstance(v, Value) for v in ends]):
        small([steps], "its result")
        known = np.linspace(float(ends[0]), float(ends[1]), steps)
        return c.cast(Value(array=base**known if "logspace" in c.target else known), name)
    wide = "float64" if isinstance(steps, int) else name
    first, last = [c.reshape(c.tensor(v, wide), []) for v in ends]
    gaps = c.number(max(steps - 1, 1), wide) if isinstance(steps, int) else c.cast(c.size(steps - 1), wide)
    step = c.call("divide", c.call("subtract", last, first), gaps)
    made = c.call("add", c.call("multiply", c.call("arange", start=0, stop=steps, step=1, dtype=wide), step), first)
    return c.cast(c.call("power", c.number(base, wide), made) if "logspace" in c.target else made, name)


def _at_import(c: TorchCall, x: Any) -> Any:
    """A number, if it is known at import."""
    return x.array.item() if isinstance(x, Value) and x.array is not None and x.is_number else x


@aten("eye", "eye.m")
def _eye(c: TorchCall, n: Operand, m: Any = None, dtype: DType | None = None, **more: object) -> np.ndarray:
    rows, columns = c.static([n, n if m is None else m], "its sizes")
    return np.eye(rows, columns, dtype=_dtype(dtype, c.home.default_dtype))


@aten("tril_indices", "triu_indices")
def _triangle_indices(
    c: TorchCall, rows: int, columns: int, offset: int = 0, dtype: DType | None = None, **more: object
) -> np.ndarray:
    make = np.tril_indices if "tril" in c.target else np.triu_indices
    return np.stack(make(rows, offset, columns)).astype(_dtype(dtype, "int64"))


@aten("hann_window", "blackman_window", "hamming_window")
def _window(
    c: TorchCall,
    n: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    dtype: DType | None = None,
    **more: object,
) -> np.ndarray:
    small([n], "its result")
    steps, places = max(n if periodic else n - 1, 1), np.arange(n)
    # (1 - cos) / 2 as a squared sine, without cancellation near both ends.
    s = np.sin(np.pi * np.minimum(places, steps - places) / steps) ** 2
    if "hann" in c.target:
        made = s
    elif "hamming" in c.target:
        made = alpha - beta + 2 * beta * s
    else:
        made = s * (0.36 + 0.64 * s)
    return (made if n > 1 else np.ones(n)).astype(_dtype(dtype, c.home.default_dtype))


@aten("rand", "randn", "rand_like", "randn_like")
def _random(c: TorchCall, like: Any, **more: object) -> Value:
    shape = like.shape if isinstance(like, Value) else like
    name = _dtype(more.get("dtype"), like.dtype if isinstance(like, Value) else c.home.default_dtype)
    return _drawn(c, "random.normal" if "randn" in c.target else "random.uniform", shape, name)


@aten("randperm")
def _permutation(c: TorchCall, n: Operand, dtype: DType | None = None, **more: object) -> Value:
    (n,) = c.static([n], "its length")
    key = _drawn(c, "random.uniform", [n], "float32")
    return c.cast(c.call("argsort", key, axis=0, dtype="int64"), _dtype(dtype, "int64"))


@aten("randint", "randint_like")
def _random_whole(c: TorchCall, *args: object, dtype: DType | None = None, **more: object) -> Value:
    return _whole_numbers(c, list(args), dtype)


@aten("bernoulli")
def _bernoulli(c: TorchCall, x: Value, p: Any = None) -> Value:
    below = x if p is None else c.tensor(p, "float32")
    unit = _drawn(c, "random.uniform", x.shape, below.dtype if is_float(below.dtype) else "float32")
    return c.cast(c.call("less", unit, below), x.dtype)


@aten("bernoulli_")
def _bernoulli_in_place(c: TorchCall, x: Value, p: Any = 0.5) -> Value:
    return _bernoulli(c, x, p)


@aten("uniform")
def _uniform(c: TorchCall, x: Value, low: float = 0.0, high: float = 1.0) -> Value:
    unit = _drawn(c, "random.uniform", x.shape, x.dtype)
    return c.call("add", c.call("multiply", unit, float(high - low)), float(low))


def _normal_like(c: TorchCall, shape: Sequence[Dim], dtype: str, mean: Operand, std: Operand) -> Value:
    made = c.call("multiply", _drawn(c, "random.normal", shape, dtype), c.tensor(std, dtype))
    return c.call("add", made, c.tensor(mean, dtype))


@aten("normal_functional", "normal_")
def _normal_in_place(c: TorchCall, x: Value, mean: float = 0.0, std: float = 1.0) -> Value:
    return _normal_like(c, x.shape, x.dtype, mean, std)


@aten("normal")
def _normal(
    c: TorchCall, mean: Operand, std: Operand = 1.0, shape: Any = None, dtype: DType | None = None, **more: object
) -> Value:
    given = [v for v in (mean, std) if isinstance(v, Value)]
    if given:
        return _normal_like(c, broadcast_all(c, given)[0].shape, given[0].dtype, mean, std)
    return _normal_like(c, shape, _dtype(dtype, c.home.default_dtype), mean, std)


@aten("multinomial")
def _multinomial(c: TorchCall, p: Value, count: int, replacement: bool = False, **more: object) -> Value:
    """Argmax of log(p) plus Gumbel noise: once for each draw, or the first `count` for draws without replacement."""
    draws = [count] if replacement else []
    shape = [*p.shape[:-1], *draws, p.shape[-1]]
    logs = c.call("expand_dims", c.call("log", p), axis=p.ndim - 1) if replacement else c.call("log", p)
    unit = c.call("maximum", _drawn(c, "random.uniform", shape, p.dtype), 1e-20)
    noisy = c.call("subtract", logs, c.call("log", c.call("negative", c.call("log", unit))))
    if replacement:
        return c.cast(c.call("argmax", noisy, axis=(len(shape) - 1,)), "int64")
    return c.call("topk", noisy, k=count, axis=-1, ret_type="indices", is_ascend=False, dtype="int64")


def _base(c: TorchCall) -> str:
    return c.target.split("::")[-1].split(".")[0]


def _whole_numbers(c: TorchCall, args: list[Argument], dtype: DType) -> Value:
    like = args.pop(0) if isinstance(args[0], Value) else None
    shape = like.shape if like is not None else args.pop()
    low, high = args if len(args) == 2 else (0, args[0])
    unit = _drawn(c, "random.uniform", shape, "float32")
    made = c.call("add", c.call("floor", c.call("multiply", unit, float(high - low))), float(low))
    return c.cast(made, _dtype(dtype, like.dtype if like is not None else "int64"))


def _drawn(c: TorchCall, key: str, shape: Sequence[Dim], dtype: str) -> Value:
    """Random numbers with a fixed seed for each call, so runs repeat."""
    from tilewright import relay

    sizes = c.static(shape, "the shape of random numbers")
    c.home.draws += 1
    drawn = getattr(relay.random, key.split(".")[1])(
        relay.const(np.array([0, 0, 0, 0, 0, 0, 0, 0, 1 << 63, c.home.draws], np.uint64)), tuple(sizes), "float32"
    )
    return c.cast(Value(drawn[1]), dtype)


@aten("one_hot")
def _one_hot(c: TorchCall, x: Value, classes: int = -1) -> Value:
    if classes < 0:
        raise c.refuse("num_classes", -1, "a number: it cannot be read out of the data")
    return c.call("one_hot", x, c.number(1, "int64"), c.number(0, "int64"), depth=classes, axis=-1, dtype="int64")


@aten("vander")
def _vander(c: TorchCall, x: Value, n: int | None = None, increasing: bool = False) -> Value:
    columns = n if n is not None else c.static(x.shape, "the length of x")[0]
    powers = np.arange(columns) if increasing else np.arange(columns)[::-1]
    dtype = x.dtype if kind(x.dtype) == 2 else "int64"
    exact = c.call("power", c.cast(c.call("expand_dims", x, axis=1), "float64"), Value(array=powers.astype(np.float64)))
    return c.cast(exact, dtype)
