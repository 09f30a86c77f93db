"""Operators on the accelerator under their classic names: computes of packed layouts, and their schedules."""

from __future__ import annotations

from tilewright.support import lazy

_HOMES = {
    "graphpack": ("graph_pack",),
    "partitioning": ("partition",),
    "vta_conv2d": ("conv2d_packed", "schedule_conv2d_packed"),
    "vta_group_conv2d": ("group_conv2d_packed", "schedule_group_conv2d_packed"),
    "vta_conv2d_transpose": ("conv2d_transpose_packed", "schedule_conv2d_transpose_packed"),
    "vta_dense": ("dense_packed", "schedule_dense_packed"),
    "utils": ("is_packed_layout",),
}
lazy.declare(__name__, {name: f"{__name__}.{home}:{name}" for home, names in _HOMES.items() for name in names})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
