"""What is handled of PyTorch's ways: see `common.quirks`."""

from __future__ import annotations

from tilewright.relay.frontend.common.quirks import Quirk

TAKEN_APART = Quirk(
    "PyTorch", "taken apart", "an operator without a converter is taken apart by PyTorch's own decomposition"
)
WRITES = Quirk(
    "PyTorch", "writes in place", "an operator that writes its operand makes a new value, which later readers see"
)
STATE = Quirk("PyTorch", "state", "a buffer or an input that the model writes comes back as an output after its own")
CHECKS = Quirk("PyTorch", "checks", "assertions of torch.export are dropped: compiled code checks its sizes itself")
UNCHECKED = Quirk(
    "PyTorch",
    "unchecked",
    "a condition that torch.export took as true, and that is none of whole numbers, is not checked",
)
WRAPPERS = Quirk("PyTorch", "wrappers", "graphs under no_grad, autocast or checkpoints are inlined")
TABLES = Quirk("PyTorch", "tables", "weights that are whole numbers or masks are constants, not parameters")
QUANTISED = Quirk("PyTorch", "quantised", "what is float32 between dequantize and quantize runs on integers")
UNROLLED = Quirk("PyTorch", "unrolled", "a loop whose rounds are known is written out")
DECIDED = Quirk("PyTorch", "decided", "a branch whose condition is known is taken, the other left out")
DROPPED = Quirk("PyTorch", "dropped", "prints and warnings of scripts are left out")
