"""Values of fields that are not nodes (numbers, strings, arrays): how they are compared, hashed and written as JSON."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.runtime.dtype import native_order


class Leaf:
    """How the values of one foreign type take part in equality, hash and JSON."""

    __slots__ = ("decode", "digest", "encode", "equal", "tag")

    def __init__(
        self,
        tag: str,
        encode: Callable[[Any], Any],
        decode: Callable[[Any], Any],
        digest: Callable[[Any], bytes],
        equal: Callable[[Any, Any], bool],
    ) -> None:
        self.tag, self.encode, self.decode, self.digest, self.equal = tag, encode, decode, digest, equal


_by_type: dict[type, Leaf] = {}
_by_tag: dict[str, Leaf] = {}


def register_leaf(
    cls: type,
    tag: str,
    encode: Callable[[Any], Any],
    decode: Callable[[Any], Any],
    digest: Callable[[Any], bytes],
    equal: Callable[[Any, Any], bool],
) -> None:
    """Lets instances of `cls` stand in node fields. `encode` gives a JSON value, `decode` takes it back."""
    leaf = Leaf(tag, encode, decode, digest, equal)
    _by_type[cls] = leaf
    _by_tag[tag] = leaf


def find_leaf(cls: type) -> Leaf | None:
    for base in cls.__mro__:
        if base in _by_type:
            return _by_type[base]
    return None


def leaf_of_tag(tag: str) -> Leaf:
    return _by_tag[tag]


_CLASSIC_FLOAT8 = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name, the extension types of ml_dtypes (bfloat16, float8_*, int4) included."""
    name = _CLASSIC_FLOAT8.get(name, name)
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def encode_array(a: np.ndarray[Any, Any]) -> list[Any]:
    return [a.dtype.name, list(a.shape), base64.b64encode(np.ascontiguousarray(native_order(a)).tobytes()).decode()]


def decode_array(v: list[Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(v[2]), numpy_dtype(v[0])).reshape(v[1]).copy()


def digest_array(a: np.ndarray[Any, Any]) -> bytes:
    data = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    head = f"{a.dtype.name}{a.shape}".encode()
    return head + hashlib.blake2b(data.data, digest_size=16).digest()


def equal_arrays(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Bit equality: NaN equals itself, 0.0 differs from -0.0."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and (a is b or np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())
    )


def equal_floats(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


register_leaf(np.ndarray, "ndarray", encode_array, decode_array, digest_array, equal_arrays)
register_leaf(
    bytes, "bytes", lambda b: base64.b64encode(b).decode(), base64.b64decode, lambda b: b, lambda a, b: a == b
)
register_leaf(
    np.generic,
    "scalar",
    lambda s: encode_array(np.asarray(s)),
    lambda v: decode_array(v)[()],
    lambda s: digest_array(np.asarray(s)),
    lambda a, b: equal_arrays(np.asarray(a), np.asarray(b)),
)
