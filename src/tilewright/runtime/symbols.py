"""Symbols of compiled code that the runtime fills in when it loads it."""

from __future__ import annotations

CONTEXT = "__tilewright_context"
"""Functions of the runtime that compiled code calls."""
LIBRARY = "__tvm_ffi__library_ctx"
"""Where the loader puts the module that the code belongs to: look-ups of functions begin there."""

__all__ = ["CONTEXT", "LIBRARY"]
