"""Passes on functions and bindings: normal forms, inlining, closures, gradients, partial evaluation."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
