"""The text of a module of kernels."""

from __future__ import annotations

from tilewright.codegen.source.device.dialect import Dialect
from tilewright.codegen.source.device.kernel import KernelEmitter
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tir import PrimFunc


def emit_kernels(kernels: IRModule, dialect: Dialect, target: Target) -> str:
    """The text of kernels in a language."""
    functions = [dialect.legal(f) for f in kernels.functions.values() if isinstance(f, PrimFunc)]
    texts = [KernelEmitter(dialect, target, f).text() for f in functions]
    return dialect.prelude.text() + "\n".join(texts)


__all__ = ["emit_kernels"]
