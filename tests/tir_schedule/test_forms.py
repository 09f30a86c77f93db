"""Bounds of index forms."""

from __future__ import annotations

from tilewright.ir import PrimExpr
from tilewright.tir import Max, Min, Var
from tilewright.tir.schedule.facts.linear_forms import Forms


def test_shared_atoms_are_looked_at_once() -> None:
    """What gathers of gathers read: forty minima and maxima, each of which has the one before in it twice."""
    forms, i, j = Forms(), Var("i", "int32"), Var("j", "int32")
    forms.ranges[i], forms.ranges[j] = (0, 9), (0, 9)
    e: PrimExpr = i
    for k in range(40):
        e = Max(Min(e + j, 2 * e - 3), j - e) if k % 2 else Min(Max(e - j, 3 - e), 2 * j - e)
    low, high = forms.const_bounds(forms.of(e))
    assert low is not None and high is not None and low < high


def test_bounds_follow_the_ranges_of_variables() -> None:
    forms, i, j = Forms(), Var("i", "int32"), Var("j", "int32")
    least = Min(i, 2 * j)
    assert forms.const_bounds(forms.of(least)) == (None, None)
    forms.ranges[i], forms.ranges[j] = (0, 9), (1, 3)
    assert forms.const_bounds(forms.of(least)) == (0, 6)
    forms.ranges[i] = (1, 4)
    assert forms.const_bounds(forms.of(least)) == (1, 4)
