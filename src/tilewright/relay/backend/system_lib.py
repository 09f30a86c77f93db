"""Libraries that tell the runtime of themselves: linked into a program, `tvm.runtime.system_lib()` finds them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.backend import kernels
from tilewright.target import Target


def registration(symbols: Sequence[str], target: Target) -> bytes:
    """An object that registers these symbols with the runtime when it is loaded."""
    lines = ["declare i32 @TVMFFIEnvModRegisterSystemLibSymbol(ptr, ptr)"]
    calls = []
    for i, name in enumerate(dict.fromkeys(symbols)):
        lines.append(f"@{name} = external global i8")
        lines.append(f'@name{i} = private constant [{len(name) + 1} x i8] c"{name}\\00"')
        calls.append(f"  %r{i} = call i32 @TVMFFIEnvModRegisterSystemLibSymbol(ptr @name{i}, ptr @{name})")
    lines += ["define internal void @register() {", *calls, "  ret void", "}"]
    entry = "{ i32, ptr, ptr }"
    lines.append(
        f"@llvm.global_ctors = appending global [1 x {entry}] [{entry} {{ i32 65535, ptr @register, ptr null }}]"
    )
    return kernels.cached_object("\n".join(lines) + "\n", target)
