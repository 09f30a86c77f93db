"""Solving indices for the variables they are made of: `i // 4 == a and i % 4 == b` gives `i == 4 * a + b`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm
from tilewright.tir import LE, LT
from tilewright.tir.schedule.forms import Forms, Lin, combine, constant, scale


def solve(
    forms: Forms, equations: Sequence[tuple[Lin, Lin]], extents: Mapping[Any, int], no: Callable[[str], NoReturn]
) -> tuple[dict[Any, Lin], list[Any]]:
    """The variables of `extents` (each from 0 to its extent) from `index == target` pairs.

    Understood are `v`, `v + c`, numbers in mixed radix `v0 * n + v1`, and digits `v // n`, `v % n`. The conditions
    returned hold exactly for the targets that some value of the variables gives. `no(why)` must raise.
    """
    pieces: dict[Any, list[tuple[int, int, Lin]]] = {}
    guards: list[Any] = []
    for index, target in equations:
        target = combine(target, constant(-index.const))
        terms = sorted(index.terms.items(), key=lambda t: t[1])
        if not terms:
            guards += inside(forms, target, 1)
            continue
        radix = 1
        for n, (atom, k) in enumerate(terms):
            if atom.kind == LEAF and atom.leaf in extents:
                v, lower, upper = atom.leaf, 1, extents[atom.leaf]
            elif atom.kind == SPLIT and len(atom.args[0].terms) == 1 and not atom.args[0].const:
                ((inner, inner_k),) = atom.args[0].terms.items()
                if inner.kind != LEAF or inner_k != 1 or inner.leaf not in extents:
                    no(f"{forms.emit(index)} is made of digits of a sum")
                v, lower = inner.leaf, atom.args[1]
                upper = atom.args[2] or -(-extents[v] // lower) * lower
            else:
                no(f"{forms.emit(index)} is no number made of digits of its variables")
            if k != radix:
                no(f"{forms.emit(index)} has gaps or overlaps")
            extent = upper // lower
            digit = forms.div(target, radix)
            if n + 1 < len(terms):
                digit = forms.mod(digit, extent)
            else:
                guards += inside(forms, digit, extent)
            pieces.setdefault(v, []).append((lower, upper, digit))
            radix *= extent
    env: dict[Any, Lin] = {}
    for v, extent in extents.items():
        if v not in pieces:
            if extent != 1:
                no(f"{v.name} does not occur in them")
            env[v] = constant(0)
            continue
        at = 1
        value = constant(0)
        for lower, upper, digit in sorted(pieces[v], key=lambda p: p[0]):
            if lower != at:
                no(f"the digits of {v.name} do not fit together")
            at = upper
            value = combine(value, scale(digit, lower))
        if at < extent:
            no(f"the highest digit of {v.name} is missing")
        value = forms.merge_digits(value)
        if at != extent or len(pieces[v]) > 1:
            guards += inside(forms, value, extent)
        env[v] = value
    return env, guards


def inside(forms: Forms, value: Lin, extent: int) -> list[Any]:
    """Conditions that keep a value in [0, extent), as far as they are not known to hold."""
    out: list[Any] = []
    low, high = forms.const_bounds(value)
    if low is None or low < 0:
        out.append(LE(IntImm("int32", 0), forms.emit(value)))
    if high is None or high >= extent:
        out.append(LT(forms.emit(value), IntImm("int32", extent)))
    return out
