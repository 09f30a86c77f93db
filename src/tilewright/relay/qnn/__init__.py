"""Quantised neural networks: operators on integers that stand for real numbers, and their passes (classic `relay.qnn`)."""

import sys

from tilewright.relay.op import qnn as op
from tilewright.relay.op import register_qnn_legalize
from tilewright.relay.op.quantization.requantize_config import requantize_config
from tilewright.relay.qnn import transform

vars(op).update(requantize_config=requantize_config, register_qnn_legalize=register_qnn_legalize)
sys.modules[f"{__name__}.op"] = op

__all__ = ["op", "transform"]
