"""External code generators: what they are given, and what is built of their code."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
