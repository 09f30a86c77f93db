"""Expressions to LLVM IR text: types, operands, arithmetic, calls of intrinsics."""
