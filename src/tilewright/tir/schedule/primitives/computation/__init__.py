"""Primitives for where and how blocks compute: moved, inlined, divided, replaced by an instruction."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
