"""What back ends that make machine code share."""

from __future__ import annotations

from tilewright.runtime.packed_func import global_func
from tilewright.target import Target


def unfit(target: Target) -> str:
    """Why code for the target cannot be called in this process; "" when it can."""
    if not target.is_native:
        return f"it was compiled for {target.triple}"
    missing = [str(f) for f in global_func("runtime.MissingCPUFeatures")(*sorted(target.features))]
    if not missing:
        return ""
    return f"it was compiled for CPU `{target.mcpu}`, but this machine lacks the features: {', '.join(missing)}"


__all__ = ["unfit"]
