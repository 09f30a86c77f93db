"""Facts about an installation, for reports of errors."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from tilewright.support.version import VERSION

PACKAGES = ("numpy", "llvmlite", "onnx", "torch", "tensorflow", "xgboost", "ziglang")


def libinfo() -> dict[str, str]:
    """What the package is built with, by name: its version, LLVM's, and the packages that it uses where they are installed ("OFF" if
    not)."""
    from llvmlite import binding

    found = {"TVM_VERSION": "0.18.0", "TILEWRIGHT_VERSION": VERSION, "USE_LLVM": "ON"}
    found["LLVM_VERSION"] = ".".join([str(part) for part in binding.llvm_version_info])
    for name in PACKAGES:
        try:
            found[f"PACKAGE_{name.upper()}"] = version(name)
        except PackageNotFoundError:
            found[f"PACKAGE_{name.upper()}"] = "OFF"
    return found


def describe() -> None:
    """Prints facts about Python, the machine and the installation."""
    print(
        f"Python: {sys.version.split()[0]} ({platform.python_implementation()}, {64 if sys.maxsize > 1 << 32 else 32} bits)"
    )
    print(f"Machine: {platform.platform()}")
    for name, value in sorted(libinfo().items()):
        print(f"{name}: {value}")
