"""Converters of hashes: MurmurHash3 of numbers and strings, and the hashes of n-grams of tokens."""

from __future__ import annotations

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.contrib.logits import Tensors
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.runtime.host_functions.strings import string_table

FIRST, SECOND, ADDED, LAST = 0xCC9E2D51, 0x1B873593, 0xE6546B64, (0x85EBCA6B, 0xC2B2AE35)
"""Constants of MurmurHash3_x86_32 (Austin Appleby, public domain)."""


@onnx_op("MurmurHash3", domain=DOMAIN, typed=True)
def _murmur(node: OnnxNode, x: Value) -> Expr:
    seed = int(node.get("seed", 0)) & 0xFFFFFFFF
    wanted = "uint32" if node.get("positive", 1) else "int32"
    if x.kind == "string":
        found = node.host_call("text.murmur", [x.plain()], x.shape, "uint32", {"seed": seed})
    else:
        found = _of_words(Tensors(node), _words(Tensors(node), x), seed)
    return node.call("reinterpret", found, dtype=wanted)


def _words(c: Tensors, x: Value) -> list[Value]:
    """The bits of numbers as uint32, the lower half first."""
    if not x.dtype.endswith("64"):
        return [c("reinterpret", x, dtype="uint32")]
    bits = c("reinterpret", x, dtype="uint64")
    return [c.node.cast(v, "uint32") for v in (bits, c("right_shift", bits, c.number(32, "uint64")))]


def _of_words(c: Tensors, words: list[Value], seed: int) -> Value:
    def u(value: int) -> Value:
        return c.number(value, "uint32")

    def turned(v: Value, by: int) -> Value:
        return c("bitwise_or", c("left_shift", v, u(by)), c("right_shift", v, u(32 - by)))

    total: Value = u(seed)
    for w in words:
        mixed = c("multiply", turned(c("multiply", w, u(FIRST)), 15), u(SECOND))
        total = c("add", c("multiply", turned(c("bitwise_xor", mixed, total), 13), u(5)), u(ADDED))
    total = c("bitwise_xor", total, u(4 * len(words)))
    for by, factor in zip((16, 13), LAST, strict=True):
        total = c("multiply", c("bitwise_xor", total, c("right_shift", total, u(by))), u(factor))
    return c("bitwise_xor", total, c("right_shift", total, u(16)))


@host_function("text.murmur")
def _murmur_texts(config: Config, x: np.ndarray) -> np.ndarray:
    strings = string_table.decode(x)
    found = [murmur(str(t).encode(), config["seed"]) for t in strings.reshape(-1)]
    return np.array(found, np.uint32).reshape(x.shape)


def murmur(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 of bytes."""

    def turned(v: int, by: int) -> int:
        return (v << by | v >> 32 - by) & 0xFFFFFFFF

    def mixed(word: int) -> int:
        return turned(word * FIRST & 0xFFFFFFFF, 15) * SECOND & 0xFFFFFFFF

    total, whole = seed, len(data) & ~3
    for k in range(0, whole, 4):
        total = turned(total ^ mixed(int.from_bytes(data[k : k + 4], "little")), 13) * 5 + ADDED & 0xFFFFFFFF
    if len(data) > whole:
        total ^= mixed(int.from_bytes(data[whole:], "little"))
    total ^= len(data)
    for by, factor in zip((16, 13), LAST, strict=True):
        total = (total ^ total >> by) * factor & 0xFFFFFFFF
    return total ^ total >> 16


class Runs(Tensors):
    """Hashes of n-grams: runs of two to `max_ngram_size` tokens that end at each token of (batch, length)."""

    def __init__(self, node: OnnxNode, ids: Value, multipliers: Value, sizes: Value) -> None:
        super().__init__(node)
        self.dtype = ids.dtype
        self.longest, self.heads = int(node.get("max_ngram_size")), int(node.get("n_head_per_ngram"))
        self.multipliers, self.sizes = multipliers, sizes

    def part(self, x: Value, begin: int, end: int, axis: int) -> Value:
        return self("strided_slice", x, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))

    def hashed(self, earlier: list[Value], offsets: Value | None) -> Value:
        """earlier: element k has the tokens (..., length) shifted by k positions, for k = 0, 1, ..."""
        mix: Value | None = None
        found = []
        for n, tokens in enumerate(earlier):
            factor = self("reshape", self.part(self.multipliers, n, n + 1, 0), newshape=())
            term = self("multiply", tokens, factor)
            mix = term if mix is None else self("bitwise_xor", mix, term)
            if n:
                found += [self("expand_dims", mix, axis=mix.ndim)] * self.heads
        numbers = self("floor_mod", self("concatenate", found, axis=-1), self.sizes)
        return numbers if offsets is None else self("add", numbers, offsets)


@onnx_op("NGramHashMapping", domain=DOMAIN)
def _runs(
    node: OnnxNode,
    ids: Value,
    multipliers: Value,
    sizes: Value,
    past: Value | None = None,
    offsets: Value | None = None,
    end: Value | None = None,
    segments: Value | None = None,
) -> list[Value]:
    c = Runs(node, ids, multipliers, sizes)
    batch, length = node.static(ids)
    back = c.longest - 1
    pad = c.number(int(node.get("pad_id")), c.dtype) if end is None else c("reshape", end, newshape=())
    if past is None:
        past = c("broadcast_to", c("reshape", pad, newshape=(1, 1)), shape=(batch, back))
    line = c("concatenate", [past, ids], axis=1)
    resets = end is not None and bool(node.get("reset_on_eos", 0))
    earlier, lost = [], None
    for k in range(c.longest):
        tokens = c.part(line, back - k, back - k + length, 1)
        new = _lost(c, tokens, pad if resets and k else None, segments, k)
        lost = new if lost is None else lost if new is None else c("logical_or", lost, new)
        earlier.append(tokens if lost is None or not k else c("where", lost, pad, tokens))
    return [c.hashed(earlier, offsets), c.part(line, length, length + back, 1)]


def _lost(c: Runs, tokens: Value, end: Value | None, segments: Value | None, k: int) -> Value | None:
    """Whether the token k positions back is cut off: it is an end token, or a segment begins after it."""
    found = None if end is None else c("equal", tokens, end)
    if segments is None or not k:
        return found
    length = segments.known_extent(1)
    now, before = [c("nn.pad", segments, c.number(0, "int32"), pad_width=((0, 0), (n, 0))) for n in (k - 1, k)]
    other = c("not_equal", c.part(now, 0, length, 1), c.part(before, 0, length, 1))
    # Positions before the first token belong to no segment and are not cut off.
    inside = Value(array=(np.arange(length) >= k).reshape(1, -1))
    border = c("logical_and", other, inside)
    return border if found is None else c("logical_or", found, border)
