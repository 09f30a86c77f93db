"""C text from lowered functions."""
