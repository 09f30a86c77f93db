"""Functions, statements, loops and calls to LLVM IR text: what a function is made of."""
