"""The static analysis of kernels for GPUs: each quantity on kernels whose answer is known."""
