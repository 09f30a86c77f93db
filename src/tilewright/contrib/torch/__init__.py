"""Compiled programs in PyTorch: `as_torch` for TensorIR, `optimize_torch` for functions and modules of PyTorch."""

from tilewright.contrib.torch.as_torch import OperatorModuleWrapper, as_torch
from tilewright.contrib.torch.optimize_torch import GraphExecutorFactoryWrapper, optimize_torch

__all__ = ["GraphExecutorFactoryWrapper", "OperatorModuleWrapper", "as_torch", "optimize_torch"]
