"""The forms of operators on GPUs: plain layouts, in which kernels find their tiles by themselves."""

from __future__ import annotations

from tilewright.scheduling.graph_forms import GraphForms


class GpuGraphForms(GraphForms):
    """Answers to passes. Layouts stay as the model has them."""


__all__ = ["GpuGraphForms"]
