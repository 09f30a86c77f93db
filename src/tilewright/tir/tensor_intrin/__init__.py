"""Instructions of processors as tensor intrinsics, by architecture; importing a module registers those of it."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.tir.tensor_intrin import (
    amx,
    arm_cpu,
    arm_dsp,
    arm_mve,
    cuda,
    dot_product,
    dp4a,
    metal,
    wasm,
    wgmma,
    x86,
)

_DP4A = ("get_dp4a_intrin", *dp4a.INTRINSICS.constants)
lazy.faces(__name__, {"dot_product_common": [f"{__name__}.dp4a:{name}" for name in _DP4A]})
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["amx", "arm_cpu", "arm_dsp", "arm_mve", "cuda", "dot_product", "dp4a", "metal", "wasm", "wgmma", "x86"]
