"""Quantised neural networks: operators on integers that stand for real numbers, and their passes (classic `relay.qnn`)."""

import sys

from tilewright.relay.op import qnn as op
from tilewright.relay.qnn import transform
from tilewright.relay.qnn.config import requantize_config

vars(op)["requantize_config"] = requantize_config
sys.modules[f"{__name__}.op"] = op

__all__ = ["op", "transform"]
