"""Parts shared by the back ends for machine code."""

from __future__ import annotations

from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError
from tilewright.target import Target


def unfit(target: Target) -> str:
    """The reason why code for the target cannot be called in this process; "" if it can."""
    if not target.is_native:
        return f"it was compiled for {target.triple}"
    missing = [str(f) for f in global_func("runtime.MissingCPUFeatures")(*sorted(target.features))]
    if not missing:
        return ""
    return f"it was compiled for CPU `{target.mcpu}`, but this machine lacks the features: {', '.join(missing)}"


def big_endian(target: Target) -> TVMError:
    """The error for big-endian targets."""
    return TVMError(
        f"-mtriple={target.triple} is a big-endian machine, but constants are written little-endian; give the triple of"
        " a little-endian CPU, such as x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu"
    )


__all__ = ["big_endian", "unfit"]
