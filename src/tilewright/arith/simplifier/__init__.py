"""The simplifier: linear forms, conditions and rewrite rules, and the engine that applies them."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
