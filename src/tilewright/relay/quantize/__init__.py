"""Post-training quantisation of float32 models (classic `relay.quantize`)."""

from tilewright.relay.quantize.config import (
    QAnnotateKind,
    QConfig,
    QuantizeContext,
    current_qconfig,
    kind2str,
    qconfig,
    quantize_context,
)
from tilewright.relay.quantize.passes import annotate, calibrate, partition, realize
from tilewright.relay.quantize.rewrite import prerequisite_optimize, quantize
from tilewright.support import lazy

lazy.faces(__name__, {"quantize": ()})

__all__ = [
    "QAnnotateKind",
    "QConfig",
    "QuantizeContext",
    "annotate",
    "calibrate",
    "current_qconfig",
    "kind2str",
    "partition",
    "prerequisite_optimize",
    "qconfig",
    "quantize",
    "quantize_context",
    "realize",
]
