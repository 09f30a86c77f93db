"""Compatibility notes of PyTorch."""

from __future__ import annotations

from tilewright.relay.frontend.common.compatibility import CompatibilityNote

TAKEN_APART = CompatibilityNote(
    "PyTorch", "taken apart", "an operator without a converter is replaced by PyTorch's own decomposition"
)
WRITES = CompatibilityNote(
    "PyTorch", "writes in place", "an operator that writes in place creates a new value, which later nodes read"
)
STATE = CompatibilityNote(
    "PyTorch", "state", "a buffer or input that the model writes becomes an output after the model's own"
)
CHECKS = CompatibilityNote(
    "PyTorch", "checks", "assertions of torch.export are dropped; compiled code checks its sizes itself"
)
UNCHECKED = CompatibilityNote(
    "PyTorch",
    "unchecked",
    "a condition that torch.export assumed, and that is not about integers, is not checked",
)
WRAPPERS = CompatibilityNote("PyTorch", "wrappers", "graphs under no_grad, autocast or checkpoints are inlined")
TABLES = CompatibilityNote("PyTorch", "tables", "integer and boolean weights are constants, not parameters")
QUANTISED = CompatibilityNote("PyTorch", "quantised", "operators between dequantize and quantize run on integers")
UNROLLED = CompatibilityNote("PyTorch", "unrolled", "a loop with a known number of iterations is unrolled")
DECIDED = CompatibilityNote("PyTorch", "decided", "a branch with a known condition is inlined")
DROPPED = CompatibilityNote("PyTorch", "dropped", "prints and warnings of scripts are dropped")
