"""Faces of the executors of compiled models."""

from __future__ import annotations

from tilewright.runtime.executor.aot_executor import AotModule
from tilewright.runtime.executor.static_module import StaticModule

__all__ = ["AotModule", "StaticModule"]
