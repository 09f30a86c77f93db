"""Converters of layers that take strings or look up vocabularies. Strings are numbers here, so kernels can look them up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call, host_call_like, host_call_sized
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.relay.frontend.keras.layers_core import one_hot
from tilewright.relay.frontend.keras.value import LayerCall, keras_layer
from tilewright.runtime.host_functions.hashing import (
    TENSORFLOW_SEED,
    WORD,
    fingerprint64,
    joined_fingerprints,
    siphash,
)
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, as_string, string_host, string_table
from tilewright.support.errors import ModelError, OpNotImplemented

MARKS = re.compile(rb"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']")
"""The characters that TextVectorization strips."""
STRING_LAYERS = ("TextVectorization", "StringLookup", "Hashing", "HashedCrossing", "InputLayer", "Identity")
"""Layers that take tensors of strings."""


def known_strings(c: LayerCall, x: Value) -> Value:
    """The numbers of a tensor of strings. Raises OpNotImplemented for other tensors."""
    if not isinstance(x, StringTensor):
        raise OpNotImplemented(f"its input is a tensor of {x.dtype}; it takes strings")
    return x.numbers


# ---- look-ups


def _vocabulary(c: LayerCall, specials: Sequence[Any]) -> list[str | int]:
    """The vocabulary without the tokens for masks and for unknown strings."""
    given = c.config.get("vocabulary")
    if isinstance(given, Mapping):
        given = (given.get("config") or {}).get("value")
    if given is None:
        given = c.store.vocabulary()
    if given is None:
        raise ModelError(
            "the file holds no vocabulary of it. Save the model as a .keras file after adapt(), or give vocabulary=[...]"
        )
    if isinstance(given, str):
        raise OpNotImplemented(
            f"its vocabulary is the file {given!r}; give it as a list, or save the model after adapt()"
        )
    whole = isinstance(specials[0] if specials else "", str)
    found = [str(t) if whole else int(t) for t in given]
    return found[len(specials) :] if found[: len(specials)] == list(specials) else found


class Lookup:
    """A vocabulary: `tokens` with indices from `first` on. The indices before it are those of the mask and of unknown tokens."""

    def __init__(self, c: LayerCall, strings: bool, mode: str, mask: Any) -> None:
        self.c, self.strings, self.mode, self.mask = c, strings, mode, mask
        self.unknown = int(c.get("num_oov_indices", 1))
        oov = c.get("oov_token", "[UNK]" if strings else -1)
        self.masked = mask is not None and mode == "int"
        self.specials = [*([mask] if self.masked else []), *[oov] * self.unknown]
        self.oov = oov
        self.tokens = _vocabulary(c, self.specials)
        self.first = int(self.masked) + self.unknown
        size = self.first + len(self.tokens)
        self.depth = int(c.get("max_tokens") or size) if c.get("pad_to_max_tokens", False) else size

    def keys(self, tokens: Sequence[Any]) -> np.ndarray:
        """Tokens in the program's form: numbers of strings, or integers."""
        return string_table.encode(np.array(tokens, object), keep=True) if self.strings else np.array(tokens, np.int64)

    def places(self, x: Value, given: Value) -> Value:
        """The index of each element; -1 for dropped ones. given: x, or its strings."""
        c, keys = self.c, self.keys(self.tokens)
        other = self.others(x, given)
        order = np.argsort(keys, kind="stable")
        if len(keys):
            table = Value(array=keys[order])
            at = c.call("minimum", c.call("searchsorted", table, x, dtype="int32"), len(keys) - 1)
            hit = c.call("equal", c.call("take", table, at, axis=0), x)
            found = c.call("take", Value(array=order.astype(np.int64) + self.first), at, axis=0)
            other = c.call("where", hit, found, other)
        if self.mask is not None:
            masked = c.call("equal", x, c.number(int(self.keys([self.mask])[0]), "int64"))
            other = c.call("where", masked, c.number(0 if self.masked else -1, "int64"), other)
        return other

    def others(self, x: Value, given: Value) -> Value:
        """The indices of unknown tokens."""
        c = self.c
        begin = c.number(int(self.masked), "int64")
        if self.unknown < 2:
            return c.number(int(self.masked) if self.unknown else -1, "int64")
        salt = c.config.get("salt")
        if self.strings or salt or str(c.get("oov_method", "floormod")) != "floormod":
            made = host_call_like(c, "keras.hash", [given], x, "int64", bins=self.unknown, salt=_salt(salt))
        else:
            made = c.call("floor_mod", x, c.number(self.unknown, "int64"))
        return c.call("add", made, begin)

    def weights(self) -> Value:
        """The weight of each index."""
        c, given = self.c, self.c.config.get("idf_weights")
        if isinstance(given, Mapping):
            given = (given.get("config") or {}).get("value")
        if given is None:
            (found,) = c.arrays("idf_weights")
        else:
            found = np.array([*[np.mean(given)] * self.unknown, *given], np.float32)
        return Value(array=np.pad(found.astype(np.float32), (0, self.depth - len(found))))


def encoded(c: LayerCall, places: Value, mode: str, depth: int, weights: Value | None = None) -> Value:
    """Indices converted to the output mode."""
    if mode == "int":
        return places
    if c.get("sparse", False):
        raise c.refuse("sparse", True, "sparse=False")
    kind = "float32" if c.kind.startswith("Hash") or mode == "tf_idf" else "int64"
    if mode == "one_hot":
        if places.ndim > 1 and isinstance(places.shape[-1], int) and places.shape[-1] == 1:
            places = c.call("squeeze", places, axis=(places.ndim - 1,))
        return one_hot(c, places, depth, kind)
    hot = one_hot(c, places, depth, kind)
    if places.ndim:
        hot = c.reduce("max" if mode == "multi_hot" else "sum", hot, [hot.ndim - 2])
    return hot if weights is None else c.call("multiply", hot, weights)


@keras_layer("StringLookup", "IntegerLookup")
def _lookup(c: LayerCall, x: Value) -> Value:
    mode, strings = str(c.get("output_mode", "int")), c.kind == "StringLookup"
    lookup = Lookup(c, strings, mode, c.config.get("mask_token"))
    if c.get("invert", False):
        specials = [*([lookup.mask] if lookup.masked else []), *[lookup.oov] * lookup.unknown]
        table = lookup.keys([*specials, *lookup.tokens, lookup.oov])
        last = len(table) - 1
        at = c.cast(x, "int64")
        known = c.call("logical_and", c.call("greater_equal", at, 0), c.call("less", at, last))
        made = c.call("take", Value(array=table), c.call("where", known, at, c.number(last, "int64")), axis=0)
        return StringTensor(made.expr) if strings else made
    numbers = known_strings(c, x) if strings else c.cast(x, "int64")
    places = lookup.places(numbers, x if strings else numbers)
    return encoded(c, places, mode, lookup.depth, lookup.weights() if mode == "tf_idf" else None)


@keras_layer("TextVectorization")
def _vectorization(c: LayerCall, x: Value) -> Value:
    known_strings(c, x)
    for key in ("standardize", "split"):
        if isinstance(c.config.get(key), Mapping):
            raise OpNotImplemented(f"its {key} is a function of the model's author; supported: Keras's own, by name")
    if c.get("ragged", False):
        raise c.refuse("ragged", True, "ragged=False")
    mode, length = str(c.get("output_mode", "int")), c.config.get("output_sequence_length")
    ngrams = c.config.get("ngrams")
    config: dict[str, Any] = {
        "standardize": c.config.get("standardize"), "split": c.config.get("split"),
        "ngrams": list(range(1, ngrams + 1)) if isinstance(ngrams, int) else list(ngrams or ()),
    }  # fmt: skip
    if config["split"] is None and not config["ngrams"]:
        tokens = host_call_like(c, "keras.standardized", [x], x, "string", **config)
    else:
        rows = x if x.ndim == 1 else StringTensor(c.call("squeeze", x.numbers, axis=(x.ndim - 1,)).expr)  # type: ignore[attr-defined]
        if length is not None and mode == "int":
            tokens = host_call(
                c, "keras.tokens", [rows], [rows.shape[0], int(length)], "string", length=int(length), **config
            )
        else:
            made = host_call_sized(c, "keras.tokens", [rows], 2, "string", **config)
            assert isinstance(made, StringTensor)
            # The number of strings is known at import.
            tokens = StringTensor(c.reshape(made.numbers, [rows.shape[0], -1]).expr)
    lookup = Lookup(c, True, mode, "")
    assert isinstance(tokens, StringTensor)
    places = lookup.places(tokens.numbers, tokens)
    return encoded(c, places, mode, lookup.depth, lookup.weights() if mode == "tf_idf" else None)


def _standard(config: Config, value: str) -> str:
    how, data = config["standardize"] or "", as_bytes(value)
    # Only ASCII letters, as in Keras.
    data = data.lower() if "lower" in how else data
    return as_string(MARKS.sub(b"", data) if "strip" in how else data)


@string_host("keras.standardized")
def _standardized(config: Config, x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, object)
    out.reshape(-1)[:] = [_standard(config, t) for t in x.reshape(-1).tolist()]
    return out


@string_host("keras.tokens", sized=True)
def _tokens(config: Config, x: np.ndarray) -> np.ndarray:
    rows = []
    for value in x.tolist():
        value = _standard(config, value)
        if config["split"] == "whitespace":
            parts = [as_string(p) for p in as_bytes(value).split()]
        else:
            parts = list(value) if config["split"] == "character" else [value]
        if config["ngrams"]:
            parts = [" ".join(parts[k : k + n]) for n in config["ngrams"] for k in range(len(parts) - n + 1)]
        rows.append(parts)
    length = config.get("length", max([len(r) for r in rows], default=0))
    out = np.full((len(rows), length), "", object)
    for row, parts in zip(out, rows, strict=True):
        row[: len(parts)] = parts[:length]
    return out


# ---- hashes


def _salt(salt: Any) -> list[int] | None:
    if salt is None:
        return None
    return [int(v) & WORD for v in (salt if isinstance(salt, (list, tuple)) else [salt, salt])]


@keras_layer("Hashing")
def _hashing(c: LayerCall, x: Value) -> Value:
    bins, mask = int(c.config["num_bins"]), c.config.get("mask_value")
    if not isinstance(x, StringTensor) and not x.dtype.startswith(("int", "uint")):
        raise OpNotImplemented(f"its input is a tensor of {x.dtype}; it takes strings and integers")
    numbers = x.numbers if isinstance(x, StringTensor) else c.cast(x, "int64")
    free = bins - (mask is not None)
    given = x if isinstance(x, StringTensor) else numbers
    made = host_call_like(c, "keras.hash", [given], numbers, "int64", bins=free, salt=_salt(c.config.get("salt")))
    if mask is not None:
        key = string_table.number(str(mask), keep=True) if isinstance(x, StringTensor) else int(mask)
        hidden = c.call("equal", numbers, c.number(key, "int64"))
        made = c.call("where", hidden, c.number(0, "int64"), c.call("add", made, c.number(1, "int64")))
    return encoded(c, made, str(c.get("output_mode", "int")), bins)


@string_host("keras.hash")
def _hash(config: Config, x: np.ndarray) -> np.ndarray:
    salt = config["salt"]

    def bucket(v: Any) -> int:
        data = as_bytes(v) if isinstance(v, str) else str(v).encode()
        return (fingerprint64(data) if salt is None else siphash(data, salt)) % int(config["bins"])

    return np.array([bucket(v) for v in x.reshape(-1).tolist()], np.int64).reshape(x.shape)


@keras_layer("HashedCrossing")
def _crossing(c: LayerCall, xs: Sequence[Value]) -> Value:
    bins = int(c.config["num_bins"])
    given = [x if isinstance(x, StringTensor) else c.cast(x, "int64") for x in xs]
    made = host_call_like(c, "keras.cross", given, given[0], "int64", bins=bins)
    return encoded(c, made, str(c.get("output_mode", "int")), bins)


@string_host("keras.cross")
def _cross(config: Config, *xs: np.ndarray) -> np.ndarray:
    def bucket(way: tuple[Any, ...]) -> int:
        made = TENSORFLOW_SEED
        for v in way:
            made = joined_fingerprints(made, fingerprint64(as_bytes(v)) if isinstance(v, str) else v & WORD)
        return made % int(config["bins"])

    ways = zip(*[x.reshape(-1).tolist() for x in xs], strict=True)
    return np.array([bucket(way) for way in ways], np.int64).reshape(xs[0].shape)
