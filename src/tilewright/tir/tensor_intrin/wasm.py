"""Dot products of bytes on WebAssembly, whose vectors multiply words and add up pairs."""

from __future__ import annotations

from tilewright.tir.tensor_intrin.dot_product import BYTES, bytes_as_words, register

DOT_4x4_INTRIN = register("dot_4x4_wasm", 4, 4, BYTES, bytes_as_words(4, "llvm.wasm.dot"))
