"""From kernels of tir to programs of the accelerator. A kernel has static shapes, so its loops run here, and what they do becomes
instructions."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
