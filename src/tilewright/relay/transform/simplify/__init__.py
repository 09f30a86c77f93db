"""Passes that reduce the work of a program: they compute known values, and merge repeated computations."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
