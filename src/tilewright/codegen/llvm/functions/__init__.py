"""LLVM IR text of modules, functions, statements, loops and packed calls."""
