"""Axes that torch.export itself makes static: of each architecture the axis, and what PyTorch says."""

from __future__ import annotations

FIXED = "specialized it to be a constant"
"""The model's code decides by this extent."""

REFUSED: dict[str, dict[str, str]] = {
    "falcon-mamba": {"length": FIXED},
    "funnel": {"length": FIXED},
    "gru-attention": {"length": FIXED},
    "mamba": {"length": FIXED},
    "recurrent-gemma": {"length": FIXED},
    "rwkv": {"length": FIXED},
}
