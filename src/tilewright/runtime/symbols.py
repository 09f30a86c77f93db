"""Symbols of compiled code that the runtime fills in when it loads it."""

from __future__ import annotations

CONTEXT = "__tilewright_context"
"""Functions of the runtime that compiled code calls."""
LIBRARY = "__tvm_ffi__library_ctx"
"""Where the loader puts the module that the code belongs to: look-ups of functions begin there."""
HELD_CODE = "__tilewright_held_code"
"""Code that a library holds as data has this symbol, once it is loaded: the library's own look-ups go on to it."""

__all__ = ["CONTEXT", "HELD_CODE", "LIBRARY"]
