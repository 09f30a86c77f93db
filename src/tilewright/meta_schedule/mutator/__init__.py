"""Mutators: each changes one kind of decision of a trace."""

from __future__ import annotations

from tilewright.meta_schedule.mutator.choices import MutateComputeLocation, MutateThreadBinding, MutateUnroll
from tilewright.meta_schedule.mutator.mutator import Mutator, PyMutator
from tilewright.meta_schedule.mutator.parallel import MutateParallel
from tilewright.meta_schedule.mutator.tile_size import MutateTileSize
from tilewright.support import lazy

__all__ = [
    "MutateComputeLocation",
    "MutateParallel",
    "MutateThreadBinding",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "mutate_compute_location": ("tilewright.meta_schedule.mutator.choices:MutateComputeLocation",),
        "mutate_parallel": ("tilewright.meta_schedule.mutator.parallel:MutateParallel",),
        "mutate_thread_binding": ("tilewright.meta_schedule.mutator.choices:MutateThreadBinding",),
        "mutate_tile_size": ("tilewright.meta_schedule.mutator.tile_size:MutateTileSize",),
        "mutate_unroll": ("tilewright.meta_schedule.mutator.choices:MutateUnroll",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
