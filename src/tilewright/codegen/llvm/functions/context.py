"""The context of compiled code: the variable that the runtime fills in with its functions."""

from __future__ import annotations

from tilewright.runtime.linking.symbols import CONTEXT
from tilewright.target import Target


def context_definition(target: Target) -> str:
    """The context, empty until a loader fills it; but on Linux errors go to a library of tvm-ffi's where the process has one, since its
    own loader does not know the context."""
    if "linux" not in target.triple:
        return f"@{CONTEXT} = weak global [8 x ptr] zeroinitializer, align 16\n"
    fields = ", ".join(["ptr null", "ptr @TVMFFIErrorSetRaisedFromCStr", *["ptr null"] * 6])
    return f"""declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
@{CONTEXT} = weak global [8 x ptr] [{fields}], align 16
"""
