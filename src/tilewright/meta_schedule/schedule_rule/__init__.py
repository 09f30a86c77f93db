"""Rules that make design spaces: each schedules a block, in one or in several ways."""

from __future__ import annotations

from tilewright.meta_schedule.schedule_rule.add_rfactor import AddRFactor
from tilewright.meta_schedule.schedule_rule.apply_custom_rule import ApplyCustomRule
from tilewright.meta_schedule.schedule_rule.auto_bind import AutoBind
from tilewright.meta_schedule.schedule_rule.auto_inline import AutoInline, InlineConstantScalars
from tilewright.meta_schedule.schedule_rule.cross_thread_reduction import CrossThreadReduction
from tilewright.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling, ReuseType
from tilewright.meta_schedule.schedule_rule.parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from tilewright.meta_schedule.schedule_rule.random_compute_location import RandomComputeLocation
from tilewright.meta_schedule.schedule_rule.schedule_rule import PyScheduleRule, ScheduleRule
from tilewright.meta_schedule.schedule_rule.tensor_core import MultiLevelTilingTensorCore
from tilewright.meta_schedule.schedule_rule.wide_vector import MultiLevelTilingWideVector
from tilewright.meta_schedule.schedule_rule.with_intrin import MultiLevelTilingWithIntrin
from tilewright.support import lazy

__all__ = [
    "AddRFactor",
    "ApplyCustomRule",
    "AutoBind",
    "AutoInline",
    "CrossThreadReduction",
    "InlineConstantScalars",
    "MultiLevelTiling",
    "MultiLevelTilingTensorCore",
    "MultiLevelTilingWideVector",
    "MultiLevelTilingWithIntrin",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RandomComputeLocation",
    "ReuseType",
    "ScheduleRule",
]

# The classic module has all rules of tiling.
lazy.declare(
    "tilewright.meta_schedule.schedule_rule.multi_level_tiling",
    {
        "MultiLevelTilingTensorCore": "tilewright.meta_schedule.schedule_rule.tensor_core:MultiLevelTilingTensorCore",
        "MultiLevelTilingWideVector": "tilewright.meta_schedule.schedule_rule.wide_vector:MultiLevelTilingWideVector",
        "MultiLevelTilingWithIntrin": "tilewright.meta_schedule.schedule_rule.with_intrin:MultiLevelTilingWithIntrin",
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
