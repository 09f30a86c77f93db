"""The static analysis of a compiled model's kernels for a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.codegen.performance.kernel_report import KernelReport
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.relay.backend.kernels import machine_code
from tilewright.support.errors import TVMError


class ModelKernel(NamedTuple):
    """A kernel of a model: how often a run calls it, the nodes of the model that it computes, and a report of each part that is launched;
    or why there is none."""

    name: str
    calls: int
    source: str
    reports: tuple[KernelReport, ...]
    refused: str = ""

    @property
    def seconds(self) -> float:
        """The least time of all calls, by the rooflines."""
        return self.calls * sum([r.seconds for r in self.reports])


def model_kernel_reports(library: Any, compiled: bool = True) -> list[ModelKernel]:
    """The kernels of a model that relay.build compiled for a target of NVIDIA's, those that need most time first. compiled: as for
    driver.kernel_reports. Raises TVMError for other targets, and for libraries from files, which keep no programs."""
    texts = getattr(library, "texts", None)
    if texts is None:
        raise TVMError(
            "the static analysis needs the programs of a model that relay.build compiled, and all sizes: a library from a file keeps"
            " no programs, and the virtual machine runs dynamic dimensions (--shape pins them)"
        )
    calls: dict[str, int] = {}
    for facts in library.metadata["kernels"]:
        calls[facts["name"]] = calls.get(facts["name"], 0) + 1
    found = []
    for name, kernel in texts.kernels.items():
        target = texts.targets.get(name, texts.target)
        with target:
            mod = machine_code.lowered(machine_code.scheduled(kernel.func, target, kernel.plan), target)
        try:
            reports, why = tuple(kernel_reports(mod, target, compiled=compiled)), ""
        except TVMError as error:
            if not target.gpu.max_threads_per_multiprocessor:
                raise
            reports, why = (), str(error)
        found.append(ModelKernel(name, calls.get(name, 0), kernel.source, reports, why))
    return sorted(found, key=lambda k: -k.seconds)


__all__ = ["ModelKernel", "model_kernel_reports"]
