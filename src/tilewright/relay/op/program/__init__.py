"""Operators that say how a program runs: its checks, devices, memory, host functions and external code generators."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
