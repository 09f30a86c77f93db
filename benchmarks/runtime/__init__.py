"""What calls cost: packed functions, executors, the pool of threads."""
