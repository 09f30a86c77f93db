"""Tilewright: the classic TVM stack as one Python compiler that emits native code."""

__version__ = "0.1.0"
