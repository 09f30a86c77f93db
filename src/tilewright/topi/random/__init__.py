"""Stateless random numbers: Threefry, a function of a key and a counter."""

from __future__ import annotations

from tilewright.topi.random.threefry import (
    multinomial,
    normal,
    threefry_generate,
    threefry_split,
    threefry_test_wrapping,
    uniform,
)

__all__ = ["multinomial", "normal", "threefry_generate", "threefry_split", "threefry_test_wrapping", "uniform"]
