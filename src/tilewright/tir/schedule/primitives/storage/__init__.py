"""Primitives for what is stored: stages, layouts and types of buffers, padding, halos, ring buffers."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
