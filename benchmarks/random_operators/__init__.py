"""Operators of random sizes, beside ONNX Runtime and PyTorch."""
