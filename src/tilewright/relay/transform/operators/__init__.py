"""Passes that replace operators by others that the target supports or computes faster."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
