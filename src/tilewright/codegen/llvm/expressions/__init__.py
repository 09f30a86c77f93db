"""LLVM IR text of expressions: types, operands, arithmetic, calls of intrinsics."""
