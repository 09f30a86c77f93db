"""Passes on programs with blocks, up to their lowering to plain loops."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
