"""The importer of Caffe2's networks: `operators` and `shapes` have one converter per operator."""

from __future__ import annotations

from tilewright.relay.frontend.caffe2 import operators, shapes
from tilewright.relay.frontend.caffe2.frontend import from_caffe2
from tilewright.relay.frontend.caffe2.node import converters

__all__ = ["from_caffe2", "supported_operators"]


def supported_operators() -> list[str]:
    """Names of the operators that the importer supports."""
    return sorted(converters)
