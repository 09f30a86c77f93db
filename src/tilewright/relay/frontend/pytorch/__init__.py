"""The PyTorch importer.

`frontend` tells what was given (an exported program, a module, TorchScript) and names inputs; `exported` and `torchscript` walk their
graphs; `importer` turns one call into relay, with `value` and the files of `ops`, which hold one converter per operator of ATen.
"""

from __future__ import annotations

from tilewright.relay.frontend.pytorch import model_file
from tilewright.relay.frontend.pytorch.frontend import from_pytorch
from tilewright.relay.frontend.pytorch.importer import supported_operators

__all__ = ["from_pytorch", "supported_operators"]
