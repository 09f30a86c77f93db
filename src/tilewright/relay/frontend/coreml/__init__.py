"""The importer of Core ML's neural networks: converters of layers with weights in `layers`, of arithmetic in `arithmetic`, of what moves
elements in `movement`."""

from __future__ import annotations

from tilewright.relay.frontend.coreml import arithmetic, layers, movement
from tilewright.relay.frontend.coreml.frontend import from_coreml
from tilewright.relay.frontend.coreml.node import converters

__all__ = ["from_coreml", "supported_layers"]


def supported_layers() -> list[str]:
    """Names of the layers that the importer supports."""
    return sorted(converters)
