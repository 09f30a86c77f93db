"""Passes for the threads of GPUs: bindings, barriers, reductions across threads, instructions of warps."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
