"""C text of lowered functions."""
