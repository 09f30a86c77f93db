"""Passes for the storage of tensors, their devices, and the order in which a batch is computed."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
