"""Passes after which a program does less: what is known is computed, what is done twice is done once."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
