"""The execution plan of a program: which kernel runs when, where its tensors lie, and the entry that runs it."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
