"""Reads and writes of buffers to LLVM IR text: addresses, masks, interleaved loads, buffers in registers."""
