"""Names by which schedules and the compiler know the accelerator's memories and steps."""

from __future__ import annotations

INP_SCOPE, WGT_SCOPE, ACC_SCOPE = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SCOPES = {INP_SCOPE: "inp", WGT_SCOPE: "wgt", ACC_SCOPE: "acc"}
"""The memories by the storage scopes of buffers."""
GEMM, RESET = "VTAGemm", "VTAReset"
"""The external functions that stand for steps of products: (accumulator, input, weight), (accumulator)."""
LOAD, STORE = "VTALoadBuffer2D", "VTAStoreBuffer2D"
"""Those that stand for copies, as `vta.transform.InjectDMAIntrin` makes them."""
PUSH, LOOP_BEGIN, LOOP_END = "VTAUopPush", "VTAUopLoopBegin", "VTAUopLoopEnd"
"""Those that stand for micro-ops and the loops of an instruction (`vta.transform.InjectALUIntrin`, `FoldUopLoop`)."""
COMMANDS, CPU_POINTER, WAIT = "VTATLSCommandHandle", "VTABufferCPUPtr", "VTASynchronize"
TOKENS = "VTADepPush", "VTADepPop"
"""Those of the classic driver: its queue of commands, an address for the CPU, the wait for all commands, tokens."""
UNIT_SCOPE, UOP_SCOPE = "coproc_scope", "coproc_uop_scope"
"""The attributes around what a unit does, and around the micro-ops of an instruction."""

__all__ = [
    "ACC_SCOPE", "COMMANDS", "CPU_POINTER", "GEMM", "INP_SCOPE", "LOAD", "LOOP_BEGIN", "LOOP_END", "PUSH", "RESET", "SCOPES", "STORE",
    "TOKENS", "UNIT_SCOPE", "UOP_SCOPE", "WAIT", "WGT_SCOPE",
]  # fmt: skip
