"""Which accelerator: configurations under a budget of area and bandwidth, and the time of a network on each."""

from __future__ import annotations

from tilewright.support import lazy

_HOMES = {
    "area": ("area_of",),
    "networks": ("NETWORKS", "Layer", "read_layers"),
    "sweep": ("Point", "Space", "explore", "front"),
}
lazy.declare(__name__, {name: f"{__name__}.{home}:{name}" for home, names in _HOMES.items() for name in names})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
