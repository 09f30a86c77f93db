"""Layouts of packed data."""

from __future__ import annotations

import re


def is_packed_layout(layout: str) -> bool:
    """Whether a layout has blocks of batch and of channels, of any size: "NCHW1n16c"."""
    return re.fullmatch(r"NCHW\d+n\d+c", layout) is not None


__all__ = ["is_packed_layout"]
