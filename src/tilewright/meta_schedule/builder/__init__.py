"""From schedules to libraries."""

from __future__ import annotations

from tilewright.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult, PyBuilder, create
from tilewright.meta_schedule.builder.local_builder import LocalBuilder

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"]
