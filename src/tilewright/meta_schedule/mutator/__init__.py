"""Mutators: each changes one kind of decision of a trace."""

from __future__ import annotations

from tilewright.meta_schedule.mutator.choices import MutateComputeLocation, MutateThreadBinding, MutateUnroll
from tilewright.meta_schedule.mutator.mutator import Mutator, PyMutator
from tilewright.meta_schedule.mutator.parallel import MutateParallel
from tilewright.meta_schedule.mutator.tile_size import MutateTileSize

__all__ = [
    "MutateComputeLocation",
    "MutateParallel",
    "MutateThreadBinding",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
]
