"""Back ends: interp runs programs on NumPy (the oracle), llvm makes native code."""

from tilewright.support.deferred import defer

defer("tilewright.codegen.interp", "tilewright.codegen.llvm")
