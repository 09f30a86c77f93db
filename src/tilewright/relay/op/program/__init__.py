"""Operators about the execution of a program: checks, devices, memory, host functions, external code generators."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
