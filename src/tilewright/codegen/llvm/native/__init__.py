"""LLVM IR text to native code: target machines, optimisation, linking in process."""
