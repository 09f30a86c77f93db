"""What runs programs of the accelerator: the reference in Python, and the simulators of the native library."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
