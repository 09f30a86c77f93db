"""Operators that compute with elements: of one tensor, of two, along axes."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
