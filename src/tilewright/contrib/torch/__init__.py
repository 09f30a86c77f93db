"""Compiled programs in PyTorch: `as_torch` for TensorIR, `optimize_torch` for functions and modules of PyTorch, `compile` for modules of
TorchScript that are exported as graphs."""

from tilewright.contrib.torch.as_torch import OperatorModuleWrapper, as_torch
from tilewright.contrib.torch.module import GraphModule, TraceTvmModule, VMModule
from tilewright.contrib.torch.optimize_torch import GraphExecutorFactoryWrapper, optimize_torch
from tilewright.contrib.torch.pytorch_tvm import PyTorchTVMModule, compile

TVMScriptIRModule = OperatorModuleWrapper

__all__ = [
    "GraphExecutorFactoryWrapper",
    "GraphModule",
    "OperatorModuleWrapper",
    "PyTorchTVMModule",
    "TVMScriptIRModule",
    "TraceTvmModule",
    "VMModule",
    "as_torch",
    "compile",
    "optimize_torch",
]
