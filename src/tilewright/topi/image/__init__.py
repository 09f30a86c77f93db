"""Computes on images."""

from __future__ import annotations

from tilewright.topi.image.resize import resize2d

__all__ = ["resize2d"]
