"""Meaning of tensor programs in Python syntax: the rules of statements, and the vocabulary `T`."""

from tilewright.support import lazy

# Analyses stand in a layer above, which the top of the package declares.
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
