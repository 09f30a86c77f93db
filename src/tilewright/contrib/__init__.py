"""Faces that programs for classic TVM import: executors and helpers over the rest of the package."""
