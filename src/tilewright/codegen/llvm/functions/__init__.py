"""Modules, functions, statements, loops and packed calls to LLVM IR text."""
