"""Generated kernels beside what the machine could do."""
