"""Primitives for loops: their shape, how each runs, axes and nests that become one, versions of a program."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
