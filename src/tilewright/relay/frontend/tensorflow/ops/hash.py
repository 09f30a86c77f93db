"""Converters of operators that map strings to numbers by hashes, and of crossed features."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call, host_call_like, host_call_sized
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.ops.strings import each
from tilewright.relay.frontend.tensorflow.value import NodeCall, string_op
from tilewright.runtime.host_functions.hashing import (
    TENSORFLOW_SEED,
    WORD,
    fingerprint64,
    joined_fingerprints,
    murmur64,
    siphash,
)
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, string_host


@string_op("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong")
def _bucket(c: NodeCall, x: Value) -> Value:
    key = [int(v) & WORD for v in c.attr("key", [])]
    return host_call_like(c, "tf.hash", [x], x, "int64", how=c.op, key=key, buckets=int(c.attr("num_buckets")))


@string_host("tf.hash")
def _run_bucket(config: Config, x: np.ndarray) -> np.ndarray:
    how, key = config["how"], config["key"]

    def number(data: bytes) -> int:
        return (
            siphash(data, key)
            if how.endswith("Strong")
            else (fingerprint64 if how.endswith("Fast") else murmur64)(data)
        )

    return each(lambda t: number(as_bytes(t)) % config["buckets"], x, np.int64)


@string_op("Fingerprint")
def _fingerprint(c: NodeCall, x: Value, method: Value) -> Value:
    return host_call(c, "tf.Fingerprint", [x], [x.shape[0], 8], "uint8")


@string_host("tf.Fingerprint")
def _run_fingerprint(config: Config, x: np.ndarray) -> np.ndarray:
    def word(data: bytes) -> bytes:
        return fingerprint64(data).to_bytes(8, "little")

    def row(values: np.ndarray) -> bytes:
        if values.dtype != object:
            return word(np.ascontiguousarray(values).tobytes())
        parts = [word(as_bytes(t)) for t in values.reshape(-1).tolist()]
        return parts[0] if len(parts) == 1 else word(b"".join(parts))

    return np.array([list(row(np.asarray(v, x.dtype))) for v in x], np.uint8).reshape(-1, 8)


# ---- crossed features


@string_op("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def _cross(c: NodeCall, *given: Value) -> list[Value]:
    n = int(c.attr("N", 0)) if c.has("N") else len(c.attr("sparse_types") or [])
    count = 3 * n + len(c.attr("dense_types") or [])
    tensors, rest = list(given[:count]), given[count:]
    hashed = c.op.endswith("Hashed") or bool(c.attr("hashed_output", False))
    config: dict[str, Any] = {"sparse": n, "hashed": hashed, "buckets": int(c.attr("num_buckets", 0)), "by": "_X_"}
    config["first"] = int(c.attr("hash_key", TENSORFLOW_SEED)) & WORD
    if c.op == "SparseCrossV2":
        tensors.append(rest[0])
        config["named"] = True
    if c.op == "SparseCrossHashed":
        config["buckets"] = int(c.number_of(rest[0], "num_buckets"))
        config["strong"] = bool(c.number_of(rest[1], "strong_hash"))
        config["salt"] = [int(v) & WORD for v in c.known(rest[2], "salt")]
    kind = "int64" if hashed else "string"
    return [
        host_call_sized(c, "tf.cross.places", tensors, 2, "int64", **config),
        host_call_sized(c, "tf.cross.values", tensors, 1, kind, **config),
        host_call(c, "tf.cross.size", tensors, [2], "int64", **config),
    ]


def _crossed(config: Config, given: tuple[np.ndarray, ...]) -> list[list[Any]]:
    """All combinations of one value of each feature, for each example. The last feature varies fastest."""
    n = config["sparse"]
    arrays = list(given)
    between = str(arrays.pop().item()) if config.get("named") else config["by"]
    places, values, sizes, dense = arrays[:n], arrays[n : 2 * n], arrays[2 * n : 3 * n], arrays[3 * n :]
    rows = int(sizes[0][0]) if n else len(dense[0])
    columns = [[v[p[:, 0] == row].tolist() for row in range(rows)] for p, v in zip(places, values, strict=True)]
    columns += [x.tolist() for x in dense]
    return [
        [_together(config, way, between) for way in itertools.product(*[column[k] for column in columns])]
        for k in range(rows)
    ]


def _together(config: Config, way: tuple[Any, ...], between: str) -> Any:
    if not config["hashed"]:
        return between.join([str(v) for v in way])
    salt = config.get("salt")
    made = config["first"]
    for k, v in enumerate(way):
        word = v & WORD if isinstance(v, int) else _word(config, as_bytes(v))
        made = joined_fingerprints(made, word) if salt is None or k else word
    return made % (config["buckets"] or (1 << 63) - 1)


def _word(config: Config, data: bytes) -> int:
    return siphash(data, config["salt"]) if config.get("strong") else fingerprint64(data)


@string_host("tf.cross.places", sized=True)
def _cross_places(config: Config, *given: np.ndarray) -> np.ndarray:
    found = _crossed(config, given)
    return np.array([(row, k) for row, made in enumerate(found) for k in range(len(made))], np.int64).reshape(-1, 2)


@string_host("tf.cross.values", sized=True)
def _cross_values(config: Config, *given: np.ndarray) -> np.ndarray:
    made = [v for row in _crossed(config, given) for v in row]
    return np.array(made, np.int64 if config["hashed"] else object)


@string_host("tf.cross.size")
def _cross_size(config: Config, *given: np.ndarray) -> np.ndarray:
    found = _crossed(config, given)
    return np.array([len(found), max([len(row) for row in found], default=0)], np.int64)
