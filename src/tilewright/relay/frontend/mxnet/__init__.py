"""The importer of MXNet's symbols: converters of arithmetic in `arithmetic`, of layers in `layers`, of what moves elements in
`movement`."""

from __future__ import annotations

from tilewright.relay.frontend.mxnet import arithmetic, layers, movement
from tilewright.relay.frontend.mxnet.frontend import from_mxnet
from tilewright.relay.frontend.mxnet.node import converters

__all__ = ["from_mxnet", "supported_operators"]


def supported_operators() -> list[str]:
    """Names of the operators that the importer supports."""
    return sorted(converters)
