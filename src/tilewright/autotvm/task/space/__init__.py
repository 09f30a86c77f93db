"""What a template leaves open: its knobs, the space of their choices, and a configuration, which is a choice of each."""

from tilewright.autotvm.task.space.annotations import (
    AnnotateEntity,
    AnnotateSpace,
    OtherOptionEntity,
    OtherOptionSpace,
)
from tilewright.autotvm.task.space.config import ConfigEntity, ConfigSpace, InstantiationError
from tilewright.autotvm.task.space.fallback import FallbackConfigEntity
from tilewright.autotvm.task.space.transforms import (
    Axis,
    ReorderEntity,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
    TransformSpace,
    VirtualAxis,
    get_factors,
    get_pow2s,
)

__all__ = [
    "AnnotateEntity", "AnnotateSpace", "Axis", "ConfigEntity", "ConfigSpace", "FallbackConfigEntity", "InstantiationError",
    "OtherOptionEntity", "OtherOptionSpace", "ReorderEntity", "ReorderSpace", "SplitEntity", "SplitSpace", "TransformSpace",
    "VirtualAxis", "get_factors", "get_pow2s",
]  # fmt: skip
