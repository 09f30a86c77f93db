"""Operators with arithmetic: on elements of one or two tensors, and along axes."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
