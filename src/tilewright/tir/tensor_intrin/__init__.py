"""Instructions of processors as tensor intrinsics, by architecture; importing a module registers those of it."""

from __future__ import annotations

from tilewright.tir.tensor_intrin import amx, arm, cuda, dot_product, wasm, x86

__all__ = ["amx", "arm", "cuda", "dot_product", "wasm", "x86"]
