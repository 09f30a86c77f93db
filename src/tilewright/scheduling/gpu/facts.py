"""The facts of the GPU for which a kernel is scheduled."""

from __future__ import annotations

from tilewright.target import Target
from tilewright.target.gpu import GpuFacts, gpu_facts
from tilewright.tir.tensor_intrin import mma

KNOWN = ("cuda", "nvptx", "opencl", "metal")
"""Kinds of targets with facts of their own."""


def facts_of(target: Target) -> GpuFacts:
    """The facts of a GPU; for kinds of which nothing is known, those that all GPUs have in common (OpenCL's)."""
    return target.gpu if target.kind.name in KNOWN else gpu_facts("opencl", target.attrs)


def unit_type(factors: str) -> str:
    """The type of matrix units for factors of a type: float32 is rounded to tf32."""
    return "tf32" if factors == "float32" else factors


def takes_factors(target: Target, factors: str) -> bool:
    """Whether matrix units may multiply factors of a type: those of float32 only where the target allows that they lose digits."""
    return factors != "float32" or bool(target.attrs.get("allow-tf32", False))


def mma_shape(target: Target, factors: str, sums: str) -> str:
    """The shape of the instructions mma by which the matrix units of a target multiply a type, with sums of a type, such as "m16n8k16"; ""
    where they do not."""
    if target.kind.name != "cuda" or not target.gpu.has_ldmatrix or not takes_factors(target, factors):
        return ""
    if factors not in mma.KINDS or sums not in mma.SUMS_OF.get(factors, ("float32",)):
        return ""
    shapes = {shape for unit in target.gpu.matrix_units(unit_type(factors), sums, "mma") for shape in unit.shapes}
    return next((text for text in mma.instructions_of(factors) if mma.sizes_of(text) in shapes), "")


__all__ = ["facts_of", "mma_shape", "takes_factors", "unit_type"]
