"""Faces that programs for classic TVM import: executors and helpers over the rest of the package."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
