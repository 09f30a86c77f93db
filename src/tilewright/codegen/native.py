"""What back ends that make machine code share."""

from __future__ import annotations

from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError
from tilewright.target import Target


def unfit(target: Target) -> str:
    """Why code for the target cannot be called in this process; "" when it can."""
    if not target.is_native:
        return f"it was compiled for {target.triple}"
    missing = [str(f) for f in global_func("runtime.MissingCPUFeatures")(*sorted(target.features))]
    if not missing:
        return ""
    return f"it was compiled for CPU `{target.mcpu}`, but this machine lacks the features: {', '.join(missing)}"


def big_endian(target: Target) -> TVMError:
    """What is said of a target whose numbers begin with their highest byte."""
    return TVMError(
        f"-mtriple={target.triple} is a big-endian machine, but constants are written little-endian; give the triple of"
        " a little-endian CPU, such as x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu"
    )


__all__ = ["big_endian", "unfit"]
