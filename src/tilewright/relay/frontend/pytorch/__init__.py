"""The PyTorch importer.

`frontend` recognises the argument (an exported program, a module, TorchScript) and names inputs; `exported` and `torchscript` walk
the graphs; `importer` converts one call to relay, with `value` and the files of `ops`, which have one converter per ATen operator.
"""

from __future__ import annotations

from tilewright.relay.frontend.pytorch import model_file
from tilewright.relay.frontend.pytorch.frontend import from_pytorch
from tilewright.relay.frontend.pytorch.importer import supported_operators

__all__ = ["from_pytorch", "supported_operators"]
