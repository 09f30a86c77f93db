"""The facts of the GPU for which a kernel is scheduled."""

from __future__ import annotations

from tilewright.target import Target
from tilewright.target.gpu import GpuFacts, gpu_facts

KNOWN = ("cuda", "nvptx", "opencl", "metal")
"""Kinds of targets with facts of their own."""


def facts_of(target: Target) -> GpuFacts:
    """The facts of a GPU; for kinds of which nothing is known, those that all GPUs have in common (OpenCL's)."""
    return target.gpu if target.kind.name in KNOWN else gpu_facts("opencl", target.attrs)


__all__ = ["facts_of"]
