"""CUDA C: its dialect, matrix units and inline assembly, compilation by NVRTC, the back end."""
