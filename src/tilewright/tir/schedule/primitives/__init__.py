"""Schedule primitives. Each changes a program and keeps its results, or refuses with the rule that would be broken."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
