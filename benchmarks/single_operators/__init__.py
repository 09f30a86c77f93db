"""Operators by themselves, beside ONNX Runtime, PyTorch and NumPy."""
