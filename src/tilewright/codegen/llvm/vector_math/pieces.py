"""Functions in pieces: tables of polynomials, one for each range of arguments, for instructions that look numbers up in registers.

The ranges of an odd function are the quarters of binades (four from each power of two to the next): bits 21 and higher of a float32. One
polynomial in x - centre stands for each, interpolated at Chebyshev's nodes; the centre is a number where the function is almost a float32
itself, so that no error comes from the constant term (S. Gal's accurate tables). Below the first range, the function is x plus multiples
of x**3 and x**5: x stands for the constant term there, so that one rounding remains.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

ENTRIES, SHIFT = 32, 21
"""Entries of a table, and the number of low bits of a float32 that do not belong to the number of its range."""
DEGREE = 5
TRIES = 100
"""Half the number of centres that are tried."""


class Pieces(NamedTuple):
    """Tables by the lowest five bits of numbers of ranges: of centres and of coefficients, the constant first. Arguments from `low` to
    `above` are in the ranges; `below` stands for all that are smaller."""

    low: float
    below: float
    above: float
    centres: tuple[float, ...]
    coefficients: tuple[tuple[float, ...], ...]


def _bits(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def _number(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _rounded(x: float) -> float:
    return _number(_bits(x))


@cache
def pieces(function: Callable[[float], float], low: float, above: float) -> Pieces:
    """The tables of an odd function with slope 1 at 0, for arguments up to `above`. low: the end of the first range, a power of two;
    there may be 31 quarters of binades from there."""
    first, last = _bits(low) >> SHIFT, _bits(above) >> SHIFT
    if last - first >= ENTRIES - 1:
        raise ValueError(f"{last - first + 1} ranges from {low} to {above} are more than a table holds, {ENTRIES - 1}")
    rows = {first - 1: _near_zero(function, low)}
    for number in range(first, last + 1):
        rows[number] = _piece(function, _number(number << SHIFT), min(_number((number + 1) << SHIFT), above))
    table = [rows.get(first - 1 + (k - first + 1) % ENTRIES, (0.0,) * (DEGREE + 2)) for k in range(ENTRIES)]
    centres, *coefficients = zip(*table, strict=True)
    return Pieces(low, _number((first << SHIFT) - 1), above, centres, tuple(coefficients))


def _near_zero(function: Callable[[float], float], low: float) -> tuple[float, ...]:
    """Centre and coefficients of a * x**3 + b * x**5 up to `low`, to which x is added."""
    near, far = (low * low * (1 + math.cos(math.pi * k)) / 2 for k in (0.75, 0.25))
    cubic = [(function(math.sqrt(z)) / math.sqrt(z) - 1) / z for z in (near, far)]
    b = (cubic[1] - cubic[0]) / (far - near)
    return (0.0, 0.0, 0.0, 0.0, cubic[0] - b * near, 0.0, b)


def _piece(function: Callable[[float], float], start: float, end: float) -> tuple[float, ...]:
    """Centre and coefficients of a polynomial from `start` to `end`."""
    middle, half = (start + end) / 2, (end - start) / 2
    nodes = [middle + half * math.cos(math.pi * (k + 0.5) / (DEGREE + 1)) for k in range(DEGREE + 1)]
    # The centre stands for a node beside the middle.
    near = nodes.pop(DEGREE // 2)

    def lost(x: float) -> float:
        y = function(x)
        return abs(y - _rounded(y))

    centre = min([_rounded(near + half * k / (5 * TRIES)) for k in range(-TRIES, TRIES + 1)], key=lost)
    constant = _rounded(function(centre))
    slopes = [(function(x) - constant) / (x - centre) for x in nodes]
    return (centre, constant, *_interpolated([x - centre for x in nodes], slopes))


def _interpolated(places: list[float], values: list[float]) -> list[float]:
    """Coefficients of the polynomial through points, the constant first (Newton's divided differences)."""
    differences = list(values)
    for level in range(1, len(places)):
        for k in range(len(places) - 1, level - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (places[k] - places[k - level])
    result = [0.0] * len(places)
    for place, difference in zip(reversed(places), reversed(differences), strict=True):
        result = [difference - place * result[0], *[a - place * b for a, b in zip(result, result[1:], strict=False)]]
    return result


__all__ = ["DEGREE", "SHIFT", "Pieces", "pieces"]
