"""Enumeration of all iterations, for bindings that no rule handles, if there are few iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.arith.linear import LEAF, MAXIMUM, MINIMUM, PRODUCT, SPLIT, Atom
from tilewright.ir import IntImm
from tilewright.tir import GE, GT, LE, LT, IterVar
from tilewright.tir.schedule.facts.linear_forms import Forms, Lin

if TYPE_CHECKING:
    from tilewright.tir.stmt import Block


LIMIT = 1 << 15
"""The largest number of iterations to enumerate, which takes about a millisecond."""


class _Unknown(Exception):
    pass


def _value(form: Lin, env: Mapping[Any, Any]) -> Any:
    total = form.const
    for t, k in form.terms.items():
        total = total + k * _atom(t, env)
    return total


def _atom(t: Atom, env: Mapping[Any, Any]) -> Any:
    if t.kind == LEAF:
        if t.leaf not in env:
            raise _Unknown
        return env[t.leaf]
    if t.kind == SPLIT:
        f, lower, upper = t.args
        value = _value(f, env)
        return (value % upper if upper else value) // lower
    a, b = _value(t.args[0], env), _value(t.args[1], env)
    if t.kind == PRODUCT:
        return a * b
    if t.kind in (MINIMUM, MAXIMUM):
        return np.minimum(a, b) if t.kind == MINIMUM else np.maximum(a, b)
    raise _Unknown


_COMPARE: dict[type, Any] = {LT: np.less, LE: np.less_equal, GT: np.greater, GE: np.greater_equal}


def visits(forms: Forms, block: Any, values: list[Any], loops: Any, conditions: Sequence[Any]) -> np.ndarray | None:
    """The number of visits to each point of a block's domain while all loops run; None if it is not known.

    Loops that no binding or condition uses count as one iteration.
    """
    shape = []
    for iv in block.iter_vars:
        if not isinstance(iv.dom.min, IntImm) or not isinstance(iv.dom.extent, IntImm):
            return None
        shape.append(iv.dom.extent.value)
    lins = [forms.of(v) for v in values]
    used: set[Any] = set()
    for lin in lins:
        used |= forms.leaves(lin)
    for c in conditions:
        if type(c) not in _COMPARE:
            return None
        used |= forms.leaves(forms.of(c.a)) | forms.leaves(forms.of(c.b))
    own = [lp for lp in loops if lp.loop_var in used]
    if any([not isinstance(lp.extent, IntImm) or not isinstance(lp.min, IntImm) for lp in own]):
        return None
    extents = [lp.extent.value for lp in own]
    if not prod(extents) or prod(extents) > LIMIT or not 0 < prod(shape) <= LIMIT:
        return None
    grid = np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), int)
    env = {lp.loop_var: grid[i] + lp.min.value for i, lp in enumerate(own)}
    count = grid.shape[1]
    try:
        inside = np.ones(count, bool)
        for c in conditions:
            inside &= _COMPARE[type(c)](_value(forms.of(c.a), env), _value(forms.of(c.b), env))
        points = [np.broadcast_to(_value(lin, env), (count,))[inside] for lin in lins]
    except _Unknown:
        return None
    points = [p - iv.dom.min.value for p, iv in zip(points, block.iter_vars, strict=True)]
    if any([p.size and (p.min() < 0 or p.max() >= n) for p, n in zip(points, shape, strict=True)]):
        return None
    if block.init is not None and not _starts_first(block, points):
        return None
    flat = np.ravel_multi_index(points, shape) if points else np.zeros(int(inside.sum()), int)
    return np.bincount(flat, minlength=prod(shape)).reshape(shape)


def _starts_first(block: Block, points: list[Any]) -> bool:
    """Whether the first visit to each element initialises it: all reduction variables have their start value."""
    reducing = [p for p, iv in zip(points, block.iter_vars, strict=True) if iv.iter_type == IterVar.CommReduce]
    spatial = [p for p, iv in zip(points, block.iter_vars, strict=True) if iv.iter_type != IterVar.CommReduce]
    if not reducing or not reducing[0].size:
        return True
    starts = np.logical_and.reduce([p == 0 for p in reducing])
    if not spatial:
        return bool(starts[0])
    _, first = np.unique(np.stack(spatial), axis=1, return_index=True)
    return bool(starts[first].all())


def fills(forms: Forms, indices: list[Lin], loops: Any, heights: list[int]) -> bool:
    """Whether the indices take every combination of these numbers of consecutive values while the loops run."""
    if any([not isinstance(lp.extent, IntImm) or not isinstance(lp.min, IntImm) for lp in loops]):
        return False
    extents = [lp.extent.value for lp in loops]
    if not extents or not 0 < prod(extents) <= LIMIT:
        return False
    grid = np.indices(extents).reshape(len(extents), -1)
    env = {lp.loop_var: grid[i] + lp.min.value for i, lp in enumerate(loops)}
    try:
        found = np.stack([np.broadcast_to(_value(lin, env), (grid.shape[1],)) for lin in indices])
    except _Unknown:
        return False
    if any([int(f.max() - f.min()) + 1 != n for f, n in zip(found, heights, strict=True)]):
        return False
    return prod(heights) <= grid.shape[1] and np.unique(found, axis=1).shape[1] == prod(heights)
