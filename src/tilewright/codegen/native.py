"""Parts that back ends for machine code share."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.transform import Pass
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError
from tilewright.target import Target


def passes(target: Target) -> Sequence[Pass]:
    """What back ends of CPUs want to be done to programs: the errors of activations as a whole rest on fused multiply-adds."""
    from tilewright.tir.transform import FuseActivations

    return [FuseActivations()] if target.cpu.fma else []


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


__all__ = ["big_endian", "passes", "unfit"]
