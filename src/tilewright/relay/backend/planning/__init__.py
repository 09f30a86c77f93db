"""Execution plan of a program: the order of the kernels, the places of their tensors in memory, and the entry that runs them."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
