"""Native code of LLVM IR text: target machines, optimisation, linking in this process."""
