"""Tests of the importer of PyTorch.

TorchScript finds the operators that it knows by the ids of objects, which it does not keep. Once one is gone, another object may get its id
and be taken for an operator ("builtin cannot be used as a value"), so they are kept here.
"""

from typing import Any

import torch

_kept: list[Any] = []
_register = torch.jit._builtins._register_builtin


def _keep_and_register(function: Any, name: str) -> None:
    _kept.append(function)
    _register(function, name)


torch.jit._builtins._register_builtin = _keep_and_register
