"""Writer of kernels in the C-like languages of devices. A dialect is what a language has of its own."""
