"""The instruction set: tables of fields, their layout in a configuration, encoding, assembly, and the specification as text."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
