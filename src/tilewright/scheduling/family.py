"""The family of schedule rules for a target."""

from __future__ import annotations

from tilewright.codegen.backend import CPU_RULES, GPU_RULES, back_end_of, back_ends
from tilewright.target import Target


def rules_of(target: Target) -> str:
    """CPU_RULES, GPU_RULES or NO_RULES, as the back end of the target says. Kinds of targets without one: by their keys."""
    if target.kind.name in back_ends():
        return back_end_of(target).rules
    return GPU_RULES if "gpu" in target.keys else CPU_RULES


__all__ = ["rules_of"]
