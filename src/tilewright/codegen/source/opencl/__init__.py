"""OpenCL C: its dialect and the back end."""
