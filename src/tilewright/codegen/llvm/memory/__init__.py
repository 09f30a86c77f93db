"""LLVM IR text of reads and writes of buffers: addresses, masks, interleaved loads, buffers in registers."""
