"""Solves indices for their variables: `i // 4 == a and i % 4 == b` gives `i == 4 * a + b`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import LE, LT, Var
from tilewright.tir.schedule.facts.linear_forms import Forms, Lin, combine, constant, scale


def solve(
    forms: Forms,
    equations: Sequence[tuple[Lin, Lin]],
    extents: Mapping[Any, Any],
    no: Callable[[str], NoReturn],
    proves: Callable[[Any], bool] = lambda c: False,
) -> tuple[Mapping[Var, Lin], Sequence[PrimExpr]]:
    """Compute the variables of `extents` (each from 0 to its extent, an int or an expression) from `index == target`
    pairs.

    Supported are `v`, `v + c`, mixed-radix numbers `v0 * n + v1`, and digits `v // n`, `v % n`. The returned conditions
    hold exactly for the targets that some value of the variables gives. `no(why)` must raise. `proves` decides
    conditions with symbolic sizes.
    """
    pieces: dict[Any, list[tuple[int, int | None, Lin]]] = {}
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
                v, lower, upper = atom.leaf, 1, _constant(extents[atom.leaf])
            elif atom.kind == SPLIT and len(atom.args[0].terms) == 1 and not atom.args[0].const:
                ((inner, inner_k),) = atom.args[0].terms.items()
                if inner.kind != LEAF or inner_k != 1 or inner.leaf not in extents:
                    no(f"{forms.emit(index)} is made of digits of a sum")
                v, lower = inner.leaf, atom.args[1]
                whole = _constant(extents[v])
                upper = atom.args[2] or (None if whole is None else -(-whole // lower) * lower)
            else:
                no(f"{forms.emit(index)} is not a number made of digits of its variables")
            if k != radix:
                no(f"{forms.emit(index)} has gaps or overlaps")
            digit = forms.div(target, radix)
            extent = None if upper is None else upper // lower
            if extent is None:
                if n + 1 < len(terms):
                    no(f"{forms.emit(index)} has a part of symbolic size inside another")
            elif n + 1 < len(terms):
                digit = forms.mod(digit, extent)
            else:
                guards += inside(forms, digit, extent)
            pieces.setdefault(v, []).append((lower, upper, digit))
            radix *= extent or 1
    env: dict[Any, Lin] = {}
    for v, extent in extents.items():
        size = _constant(extent)
        if v not in pieces:
            if size != 1:
                no(f"{v.name} does not occur in them")
            env[v] = constant(0)
            continue
        at: int | None = 1
        value = constant(0)
        for lower, upper, digit in sorted(pieces[v], key=lambda p: p[0]):
            if lower != at:
                no(f"the digits of {v.name} do not fit together")
            at = upper
            value = combine(value, scale(digit, lower))
        if at is not None and (size is None or at < size):
            no(f"the highest digit of {v.name} is missing")
        value = forms.merge_digits(value)
        if size is None:
            dtype = str(getattr(extent, "dtype", v.dtype))
            at_value = forms.emit(value, dtype)
            guards += [c for c in (LE(IntImm(dtype, 0), at_value), LT(at_value, extent)) if not proves(c)]
        elif at != size or len(pieces[v]) > 1:
            guards += inside(forms, value, size)
        env[v] = value
    return env, guards


def _constant(extent: Any) -> int | None:
    if isinstance(extent, IntImm):
        return extent.value
    return extent if isinstance(extent, int) else None


def inside(forms: Forms, value: Lin, extent: int) -> list[Any]:
    """The conditions that keep a value in [0, extent), without those that are known to hold."""
    out: list[Any] = []
    low, high = forms.const_bounds(value)
    if low is None or low < 0:
        out.append(LE(IntImm("int32", 0), forms.emit(value)))
    if high is None or high >= extent:
        out.append(LT(forms.emit(value), IntImm("int32", extent)))
    return out
