"""Post-training quantisation of float32 models (classic `relay.quantize`)."""

from tilewright.relay.quantize.config import QConfig, current_qconfig, qconfig
from tilewright.relay.quantize.rewrite import prerequisite_optimize, quantize

__all__ = ["QConfig", "current_qconfig", "prerequisite_optimize", "qconfig", "quantize"]
