"""From schedules to rows of numbers, for cost models."""

from __future__ import annotations

from tilewright.meta_schedule.feature_extractor.feature_extractor import (
    FeatureExtractor,
    PerStoreFeature,
    PyFeatureExtractor,
    RandomFeatureExtractor,
    create,
)
from tilewright.support import lazy

__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor", "create"]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "per_store_feature": ("tilewright.meta_schedule.feature_extractor.feature_extractor:PerStoreFeature",),
        "random_feature_extractor": (
            "tilewright.meta_schedule.feature_extractor.feature_extractor:RandomFeatureExtractor",
        ),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
