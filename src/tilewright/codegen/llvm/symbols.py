"""Symbols of libraries that the runtime fills in when it loads them."""

from __future__ import annotations

from tilewright.target import Target

CONTEXT = "__tilewright_context"
"""Functions of the runtime that compiled code calls."""
LIBRARY = "__tvm_ffi__library_ctx"
"""Where the loader puts the module that the code belongs to: look-ups of functions begin there."""


def context_definition(target: Target) -> str:
    """The context, empty until a loader fills it; but on Linux errors go to a library of tvm-ffi's where the process has one, since its
    own loader does not know the context."""
    if "linux" not in target.triple:
        return f"@{CONTEXT} = weak global [8 x ptr] zeroinitializer, align 16\n"
    fields = ", ".join(["ptr null", "ptr @TVMFFIErrorSetRaisedFromCStr", *["ptr null"] * 6])
    return f"""declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
@{CONTEXT} = weak global [8 x ptr] [{fields}], align 16
"""
