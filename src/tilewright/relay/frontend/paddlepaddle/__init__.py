"""The importer of PaddlePaddle's programs: converters of arithmetic and layers in `operators`, of what moves elements in `movement`."""

from __future__ import annotations

from tilewright.relay.frontend.paddlepaddle import movement, operators
from tilewright.relay.frontend.paddlepaddle.frontend import from_paddle
from tilewright.relay.frontend.paddlepaddle.node import converters

__all__ = ["from_paddle", "supported_operators"]


def supported_operators() -> list[str]:
    """Names of the operators that the importer supports."""
    return sorted(converters)
