"""Programs of the database compiled and run: by the graph executor, or in the virtual machine where data decide sizes."""

from __future__ import annotations

from typing import Any

import torch

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend.pytorch.dtypes import tensor_array


def compiled(mod: Any, params: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """What the compiled program answers."""
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    result = run(*[tensor_array(x) for x in inputs], **params)
    return [r.numpy() for r in ([result] if hasattr(result, "numpy") else result)]
