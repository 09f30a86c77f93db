"""Multiplication by a number between integers, (x * q + half) >> s with q of up to 31 bits, in arithmetic of 32 bits.

q is cut into limbs, from the lowest on: t = (x * limb + t) >> bits of a limb. Each floor is exact, since floor((a * 2^n + b) / 2^(n + m)) =
floor((a + floor(b / 2^n)) / 2^m) for whole numbers a. As many bits as x leaves of 30 go into a limb; where it leaves too few, x is cut into
two halves before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Steps(NamedTuple):
    """limbs: of q, the lowest first; halves: what each step adds; shifts: by how many bits its result is shifted, the last one maybe by
    none. Values per channel are arrays."""

    limbs: tuple[Array, ...]
    halves: tuple[Array, ...]
    shifts: tuple[Array, ...]


class Halves(NamedTuple):
    """The steps of the lower half of x, of CUT bits with a sign, and of the upper one, to which the result of the lower one is added."""

    low: Steps
    high: Steps


CUT = 15
"""Bits of the lower half."""


def steps_of(q: Array, shift: Array, magnitude: int, rounded: bool = True, carried: bool = False) -> Steps | None:
    """The steps for numbers up to a magnitude. rounded: whether there is a half; else the result is a floor. carried: whether a number is
    added to x * q. None where 32 bits do not do: too large numbers, or a factor that is too large or small."""
    q, shift = np.broadcast_arrays(q.astype(np.int64), shift.astype(np.int64))
    if (q <= 0).any() or (shift < 1).any():
        return None
    even = 0 if carried else int(min(_trailing_zeros(q).min(), shift.min() - 1))
    q, shift = q >> even, shift - even
    widths = _widths(int(q.max()).bit_length(), shift, 30 - int(magnitude).bit_length())
    if widths is None:
        return None
    offsets = [sum(widths[:n]) for n in range(len(widths) + 1)]
    last = shift - offsets[-1]
    if (last > 31).any():
        return None
    limbs = [(q >> at) & ((1 << bits) - 1) for at, bits in zip(offsets, widths, strict=False)]
    halves = []
    for n, at in enumerate(offsets):
        place = shift - 1 - at
        here = rounded & (place >= 0) & (place < widths[n] if n < len(widths) else True)
        halves.append(np.where(here, np.left_shift(np.int64(1), np.clip(place, 0, 40)), 0))
    if any([(h >= 1 << 30).any() for h in halves]):
        return None
    return Steps((*limbs, q >> offsets[-1]), tuple(halves), (*[np.array(w) for w in widths], last))


def _widths(width: int, shift: Array, room: int) -> list[int] | None:
    """Bits of all limbs but the last one, of a factor of `width` bits, where a limb has at most `room`. None where there are none."""
    if room < 4:
        return None
    count = -(-width // room)
    found = [-(-width // count)] * (count - 1)
    if (shift > sum(found)).all():
        return found
    # The last limb is not shifted: those before it are the bits that are lost.
    lost = int(shift.max())
    if (shift != lost).any() or width - lost > room:
        return None
    count = -(-lost // room)
    size = -(-lost // count)
    return [size] * (count - 1) + [lost - size * (count - 1)]


def halves_of(q: Array, shift: Array, magnitude: int, rounded: bool = True) -> Halves | None:
    """The steps for numbers that `steps_of` has none for; None where these are too large, too."""
    q, shift = np.broadcast_arrays(q.astype(np.int64), shift.astype(np.int64))
    if magnitude >= 1 << 30 or (q <= 0).any() or (q >= 1 << 31).any() or (shift <= CUT).any():
        return None
    # The lower half is at most 2^14, and one bit of 32 is left: so it may count as one of 14 bits.
    low = steps_of(q, np.full_like(shift, CUT), (1 << (CUT - 1)) - 1, rounded=False)
    high = steps_of(q, shift - CUT, (magnitude >> CUT) + 1, rounded, carried=True)
    if low is None or high is None or len(high.limbs) < 2:
        return None
    return Halves(low, high)


def _trailing_zeros(q: Array) -> Array:
    return np.array([(int(v) & -int(v)).bit_length() - 1 for v in q.reshape(-1)]).reshape(q.shape)


def apply(x: Any, steps: Steps, away_from_zero: bool, op: Callable[[str, Any, Any], Any]) -> Any:
    """The result, by operations "multiply", "add" and "right_shift" of a value and a constant array, or of two values ("add").
    away_from_zero: halves of negative numbers go down, else up."""
    return _summed(x, steps, op("right_shift", x, np.int64(31)) if away_from_zero else None, op)


def apply_halves(x: Any, halves: Halves, away_from_zero: bool, op: Callable[[str, Any, Any], Any]) -> Any:
    """The same for a number that is cut into halves."""
    carry = op("right_shift", x, np.int64(31)) if away_from_zero else None
    upper = op("right_shift", op("add", x, np.int64(1 << (CUT - 1))), np.int64(CUT))
    lower = op("add", op("multiply", upper, np.int64(-(1 << CUT))), x)
    return _summed(upper, halves.high, _summed(lower, halves.low, carry, op), op)


def _summed(x: Any, steps: Steps, carry: Any, op: Callable[[str, Any, Any], Any]) -> Any:
    """The result for x with a carry."""
    for n, (limb, half, by) in enumerate(zip(*steps, strict=True)):
        final = n == len(steps.limbs) - 1
        if not limb.any():
            total = carry
        elif (limb == 1).all():
            total = x if carry is None else op("add", x, carry)
        else:
            total = op("multiply", x, limb)
            total = total if carry is None else op("add", total, carry)
        if total is None:
            if not final and not half.any():
                continue
            total = op("multiply", x, np.int64(0))
        if half.any():
            total = op("add", total, half)
        carry = op("right_shift", total, by) if by.any() else total
    return carry


__all__ = ["Halves", "Steps", "apply", "apply_halves", "halves_of", "steps_of"]
