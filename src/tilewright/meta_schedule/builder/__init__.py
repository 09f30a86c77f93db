"""From schedules to libraries."""

from __future__ import annotations

from tilewright.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult, PyBuilder, create

__all__ = ["Builder", "BuilderInput", "BuilderResult", "PyBuilder", "create"]
