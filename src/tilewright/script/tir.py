"""The vocabulary of tensor programs, `from tilewright.script import tir as T`; the tir room defines it."""

from tilewright.support import lazy

__getattr__, __dir__ = lazy.late(__name__)
