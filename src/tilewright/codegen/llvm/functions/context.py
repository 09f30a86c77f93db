"""Definition of the context of compiled code: the variable in which the runtime stores its functions."""

from __future__ import annotations

from tilewright.runtime.linking.symbols import CONTEXT
from tilewright.target import Target


def shared_variable(target: Target) -> str:
    """The linkage of a variable that every object defines, and a library has once. WebAssembly would reach it through a table of the
    loader, did LLVM not know that it is the library's own."""
    return "weak dso_local global" if target.cpu.arch == "wasm" else "weak global"


def context_definition(target: Target) -> str:
    """The definition of the context, which is empty until a loader fills it. On Linux, errors go to tvm-ffi's library if the process has
    loaded it, since the loader of tvm-ffi does not fill the context."""
    if "linux" not in target.triple:
        return f"@{CONTEXT} = {shared_variable(target)} [8 x ptr] zeroinitializer, align 16\n"
    fields = ", ".join(["ptr null", "ptr @TVMFFIErrorSetRaisedFromCStr", *["ptr null"] * 6])
    return f"""declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
@{CONTEXT} = weak global [8 x ptr] [{fields}], align 16
"""
