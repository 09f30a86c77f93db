"""Passes for dynamic dimensions, and for indices that are known only at run time."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
