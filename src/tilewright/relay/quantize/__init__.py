"""Post-training quantisation of float32 models (classic `relay.quantize`)."""

from tilewright.relay.quantize.config import QConfig, current_qconfig, qconfig
from tilewright.relay.quantize.passes import QAnnotateKind, annotate, calibrate, kind2str, partition, realize
from tilewright.relay.quantize.rewrite import prerequisite_optimize, quantize

__all__ = [
    "QAnnotateKind",
    "QConfig",
    "annotate",
    "calibrate",
    "current_qconfig",
    "kind2str",
    "partition",
    "prerequisite_optimize",
    "qconfig",
    "quantize",
    "realize",
]
