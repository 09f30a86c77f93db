"""The best tiles of a product or a convolution, from an analytic model of its time: nothing is compiled, and nothing is simulated."""

from __future__ import annotations

from tilewright.support import lazy

_HOMES = {"problem": ("Problem", "Tiling"), "model": ("estimate",), "best": ("Found", "Freedom", "choose")}
lazy.declare(__name__, {name: f"{__name__}.{home}:{name}" for home, names in _HOMES.items() for name in names})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
