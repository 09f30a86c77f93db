"""Passes that replace an operator by another that the target computes faster, or at all."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
