"""Knobs, errors, caches and small helpers; imports nothing else of the package."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
lazy.declare(__name__, {name: f"tilewright.support.build_info:{name}" for name in ("describe", "libinfo")})
__getattr__, __dir__ = lazy.late(__name__)
