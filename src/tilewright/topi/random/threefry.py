"""Threefry-4x64 with 20 rounds (J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).

A key is 10 words of 64 bits: four of Threefry's key, four of its counter, and two for splitting. Generating numbers increments the
counter. Splitting makes two keys that no counter reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import loop_kind, program
from tilewright.topi.utils import Dim, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
PARITY = 0x1BD11BDAA9FC1A22
ROUNDS = 20
WORD = "uint64"


def _word(v: int) -> PrimExpr:
    """A constant of 64 bits. Values of 64 bits are made of two halves."""
    if v < 1 << 62:
        return tir.const(v, WORD)
    return tir.bitwise_or(
        tir.shift_left(tir.const(v >> 32, WORD), tir.const(32, WORD)), tir.const(v & 0xFFFFFFFF, WORD)
    )


def _rotated(ib: IRBuilder, x: Var, count: int) -> Var:
    left, right = tir.shift_left(x, tir.const(count, WORD)), tir.shift_right(x, tir.const(64 - count, WORD))
    return ib.let("r", tir.bitwise_or(left, right))


def threefry(ib: IRBuilder, key: Sequence[Any], counter: Sequence[Any]) -> list[Var]:
    """Emits the four random words of a key and a counter."""
    parity = _word(PARITY)
    for k in key:
        parity = tir.bitwise_xor(parity, k)
    keys = [*key, ib.let("parity", parity)]
    x = [ib.let("x", c + k) for c, k in zip(counter, keys, strict=False)]
    for r in range(ROUNDS):
        first, second = ROTATIONS[r % 8]
        a = ib.let("x", x[0] + x[1])
        b = ib.let("x", tir.bitwise_xor(_rotated(ib, x[1], first), a))
        c = ib.let("x", x[2] + x[3])
        d = ib.let("x", tir.bitwise_xor(_rotated(ib, x[3], second), c))
        # Words 1 and 3 are swapped after every round.
        x = [a, d, c, b]
        if r % 4 == 3:
            s = (r + 1) // 4
            x = [ib.let("x", v + keys[(s + i) % 5]) for i, v in enumerate(x)]
            x[3] = ib.let("x", x[3] + tir.const(s, WORD))
    return x


def threefry_generate(gen: te.Tensor, out_shape: Sequence[Dim]) -> list[te.Tensor]:
    """[the key with its counter advanced, random uint64 words of `out_shape`]."""
    from tilewright.topi.transform import reshape

    total = prod(out_shape)
    blocks = (total + 3) // 4

    def body(ib: IRBuilder, key: BufferVar, advanced: BufferVar, out: BufferVar) -> None:
        with ib.for_range(0, blocks, "i", kind=loop_kind(total)) as i:
            counter = [ib.let("c", key[4] + to(i, WORD)), key[5], key[6], key[7]]
            # The carry of the first word is added to the second.
            counter[1] = ib.let("c", key[5] + to(counter[0] < key[4], WORD))
            words = threefry(ib, [key[k] for k in range(4)], counter)
            for k, w in enumerate(words):
                with ib.if_scope(i * 4 + k < total):
                    out[i * 4 + k] = w
        for k in range(10):
            advanced[k] = key[k]
        advanced[4] = key[4] + to(blocks, WORD)
        advanced[5] = key[5] + to(key[4] + to(blocks, WORD) < key[4], WORD)

    advanced, words = program([[10], [total]], [WORD, WORD], [gen], body, "threefry_generate")
    return [advanced, reshape(words, list(out_shape)) if len(out_shape) != 1 else words]


def threefry_split(gen: te.Tensor) -> list[te.Tensor]:
    """Two keys that are independent of each other and of the numbers that the given key generates."""

    def body(ib: IRBuilder, key: BufferVar, left: BufferVar, right: BufferVar) -> None:
        for branch, out in enumerate((left, right)):
            with ib.new_scope():
                # The counter never reaches the highest bits of the last word.
                path = tir.bitwise_xor(key[7], tir.shift_left(tir.const(2 + branch, WORD), tir.const(62, WORD)))
                words = threefry(ib, [key[k] for k in range(4)], [key[4], key[5], key[6], path])
                for k in range(4):
                    out[k] = words[k]
                for k in range(4, 10):
                    out[k] = tir.const(0, WORD)
                out[8] = tir.shift_left(tir.const(1, WORD), tir.const(63, WORD))

    return program([[10], [10]], [WORD, WORD], [gen], body, "threefry_split")


def threefry_test_wrapping(target: Any = None, device: Any = None) -> bool:
    """Whether unsigned sums wrap around: True for all back ends."""
    return True


def _unit(word: PrimExpr, dtype: str, low_open: bool = False) -> Any:
    """A number in [0, 1), or in (0, 1] with `low_open`: the highest 24 bits (float64: 53) of a random word as a fraction."""
    bits, real = (53, "float64") if dtype == "float64" else (24, "float32")
    part = to(tir.shift_right(word, tir.const(64 - bits, WORD)), "int64")
    if low_open:
        part = part + 1
    return to(part, real) * tir.const(2.0**-bits, real)


def uniform(
    gen: te.Tensor, low: te.Tensor, high: te.Tensor, out_shape: Sequence[Dim], out_dtype: str
) -> list[te.Tensor]:
    """[the next key, uniformly distributed numbers in [low, high)]."""
    advanced, words = threefry_generate(gen, out_shape)

    def element(*i: Var) -> Any:
        unit = to(_unit(words(*i), out_dtype), out_dtype)
        return to(low(), out_dtype) + unit * (to(high(), out_dtype) - to(low(), out_dtype))

    return [advanced, compute(out_shape, element, name="uniform", tag="injective")]


def normal(
    gen: te.Tensor, mean: te.Tensor, scale: te.Tensor, out_shape: Sequence[Dim], out_dtype: str
) -> list[te.Tensor]:
    """[the next key, normally distributed numbers] (G. Box, M. Muller, 1958)."""
    total = prod(out_shape)
    advanced, words = threefry_generate(gen, [2 * total])
    real = "float64" if out_dtype == "float64" else "float32"

    def element(*i: Var) -> Any:
        flat = tir.const(0, "int64")
        for p, d in zip(i, out_shape, strict=True):
            flat = flat * to(d, "int64") + to(p, "int64")
        radius = tir.sqrt(tir.const(-2.0, real) * tir.log(_unit(words(flat), real, low_open=True)))
        angle = tir.const(2 * math.pi, real) * _unit(words(flat + to(total, "int64")), real)
        return to(mean(), out_dtype) + to(radius * tir.cos(angle), out_dtype) * to(scale(), out_dtype)

    return [advanced, compute(out_shape, element, name="normal", tag="injective")]


def multinomial(gen: te.Tensor, probs: te.Tensor, num_samples: int) -> list[te.Tensor]:
    """[the next key, int32 indices (..., num_samples)]. Indices are drawn with the weights along the last axis of `probs`."""
    shape = shape_of(probs)
    batch, kinds = shape[:-1], shape[-1]
    advanced, words = threefry_generate(gen, [*batch, num_samples])
    dtype = probs.dtype

    def body(ib: IRBuilder, p: BufferVar, word: BufferVar, out: BufferVar) -> None:
        from tilewright.topi.loops import local, unflatten

        with ib.for_range(0, prod(batch), "b") as b:
            at = unflatten(b, batch)
            whole = local(ib, dtype, 0, "whole")
            with ib.for_range(0, kinds, "k") as k:
                whole[0] = whole[0] + p[(*at, k)]
            with ib.for_range(0, num_samples, "s") as s:
                wanted = ib.let("wanted", to(_unit(word[(*at, s)], dtype), dtype) * whole[0])
                seen, chosen = local(ib, dtype, 0, "seen"), local(ib, "int32", 0, "chosen")
                with ib.for_range(0, kinds, "k") as k:
                    seen[0] = seen[0] + p[(*at, k)]
                    # The last index with a weight takes the rest that rounding leaves.
                    with ib.if_scope(tir.And(seen[0] <= wanted, k + 1 < kinds)):
                        chosen[0] = to(k + 1, "int32")
                out[(*at, s)] = chosen[0]

    drawn = program([[*batch, num_samples]], ["int32"], [probs, words], body, "multinomial")
    return [advanced, drawn[0]]
