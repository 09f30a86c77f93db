"""Symbols of compiled code that the runtime looks for when it loads it."""

from __future__ import annotations

CONTEXT = "__tilewright_context"
"""Functions of the runtime that compiled code calls."""
LIBRARY = "__tvm_ffi__library_ctx"
"""Where the loader puts the module that the code belongs to: look-ups of functions begin there."""
HELD_CODE = "__tilewright_held_code"
"""Code that a library holds as data has this symbol, once it is loaded: the library's own look-ups go on to it."""
METADATA, CONSTANTS = "__tilewright_metadata", "__tilewright_constants"
"""A model's description as JSON, and its constants."""
TARGET = "__tilewright_target"
"""What a machine must be to run the code, as JSON, where no metadata tells it."""

__all__ = ["CONSTANTS", "CONTEXT", "HELD_CODE", "LIBRARY", "METADATA", "TARGET"]
