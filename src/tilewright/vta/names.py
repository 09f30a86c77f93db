"""Names by which schedules and the compiler know the accelerator's memories and steps."""

from __future__ import annotations

INP_SCOPE, WGT_SCOPE, ACC_SCOPE = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SCOPES = {INP_SCOPE: "inp", WGT_SCOPE: "wgt", ACC_SCOPE: "acc"}
"""The memories by the storage scopes of buffers."""
GEMM, RESET = "VTAGemm", "VTAReset"
"""The external functions that stand for steps of products: (accumulator, input, weight), (accumulator)."""

__all__ = ["ACC_SCOPE", "GEMM", "INP_SCOPE", "RESET", "SCOPES", "WGT_SCOPE"]
