"""The version of LLVM, on which objects of the LLVM back end depend. It is told without importing the back end."""

from __future__ import annotations

from tilewright.target import Target


def toolchain(target: Target) -> str:
    """The versions of llvmlite and of its LLVM."""
    import llvmlite
    from llvmlite import binding

    return f"llvmlite {llvmlite.__version__} {binding.llvm_version_info}"


__all__ = ["toolchain"]
