"""Passes that say where tensors lie, on which device, and in which order a batch is computed."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
