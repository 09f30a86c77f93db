"""Back ends: interp runs programs on NumPy (the oracle), llvm makes native code."""
