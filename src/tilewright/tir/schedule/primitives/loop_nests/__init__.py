"""Primitives for loops: their shape and kind, merging of axes and of nests, versions of a program."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
