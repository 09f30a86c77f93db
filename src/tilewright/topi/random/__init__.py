"""Stateless random numbers: Threefry, a function of a key and a counter."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.random.threefry import (
    multinomial,
    normal,
    threefry_generate,
    threefry_split,
    threefry_test_wrapping,
    uniform,
)

declare_modules(__name__, "random")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["multinomial", "normal", "threefry_generate", "threefry_split", "threefry_test_wrapping", "uniform"]
