"""The static analysis of a kernel for a GPU: what it uses, what its accesses cost, and the least time that it can take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.performance.accesses import Program
from tilewright.codegen.performance.index_values import Unknown
from tilewright.codegen.performance.limits import shared_memory_of
from tilewright.codegen.performance.memory import AccessReport, access_report
from tilewright.codegen.performance.samples import Launch, Sampler, launch_of
from tilewright.codegen.resources import Resources
from tilewright.support.errors import TVMError
from tilewright.target import GpuFacts, Occupancy, Target
from tilewright.tir import PrimFunc


class Bound(NamedTuple):
    """What a kernel needs at least of one part of a device. seconds: at the device's peak."""

    name: str
    seconds: float


class KernelReport(NamedTuple):
    """The analysis of one kernel. Bytes and seconds.

    resources: None where no compiler of CUDA is installed. operations: by unit and type, such as {"mma float16": 2.0e9}; a multiply-add
    counts two. factors: types that are cast to wider ones before they are multiplied.
    unique_bytes: of global memory, each counted once. waves: how often the device is filled with blocks. bounds: the largest first.
    """

    name: str
    device: str
    launch: Launch
    static_shared: int
    dynamic_shared: int
    resources: Resources | None
    occupancy: Occupancy
    waves: float
    accesses: tuple[AccessReport, ...]
    operations: Mapping[str, float]
    factors: tuple[str, ...]
    unique_bytes: int
    bounds: tuple[Bound, ...]
    barriers: int
    complete: bool
    """Whether all loops have a known number of steps, and all conditions and indices do not depend on data."""

    @property
    def seconds(self) -> float:
        """The roofline: the least time by any of the bounds."""
        return self.bounds[0].seconds if self.bounds else 0.0

    @property
    def flops(self) -> float:
        return sum(self.operations.values())

    @property
    def intensity(self) -> float:
        """Operations for each byte of global memory that must be moved."""
        return self.flops / self.unique_bytes if self.unique_bytes else 0.0

    def _mean(self, memory: str) -> float:
        found = [a for a in self.accesses if a.memory == memory and a.known]
        taken = sum([a.requests * a.per_request for a in found])
        return sum([a.requests * a.ideal for a in found]) / taken if taken else 1.0

    @property
    def coalescing(self) -> float:
        """Sectors of global memory that its requests need at least, over those that they ask for."""
        return self._mean("global")

    @property
    def conflict_free(self) -> float:
        """Passes through shared memory that its requests need at least, over those that they take."""
        return self._mean("shared")

    @property
    def l2_reuse(self) -> float:
        """Bytes that concurrent blocks ask for, over those that are different."""
        found = [a for a in self.accesses if a.memory == "global" and a.known and a.served_bytes]
        different = sum([a.served_bytes / a.reuse for a in found])
        return sum([a.served_bytes for a in found]) / different if different else 1.0

    def facts(self) -> dict[str, Any]:
        """The report as numbers and words, for JSON."""
        plain = self._asdict()
        plain["launch"] = self.launch._asdict()
        plain["resources"] = self.resources._asdict() if self.resources else None
        plain["occupancy"] = self.occupancy._asdict()
        plain["accesses"] = [{**a._asdict(), "efficiency": a.efficiency} for a in self.accesses]
        plain["bounds"] = {b.name: b.seconds for b in self.bounds}
        for name in ("seconds", "flops", "intensity", "coalescing", "conflict_free", "l2_reuse"):
            plain[name] = getattr(self, name)
        return plain


def analyze_kernel(
    func: PrimFunc, target: Target, resources: Resources | None = None, sizes: Mapping[str, int] | None = None
) -> KernelReport:
    """The analysis of a kernel that `lower_for` made for a target of NVIDIA's.

    resources: what its compiler says. sizes: values of its arguments that are numbers, by name. Raises TVMError where the launch depends on
    an argument that is not given, and for other targets.
    """
    name, gpu = str(func.attrs["global_symbol"]), target.gpu
    program = Program(func)
    given = {p: (sizes or {})[p.name] for p in func.params if p.dtype.code != "handle" and p.name in (sizes or {})}
    try:
        launch = launch_of(program, given)
    except Unknown as error:
        names = [p.name for p in func.params if p.dtype.code != "handle" and p not in given]
        raise TVMError(
            f"the launch of kernel {name!r} depends on its arguments {', '.join(names)}; give their values as sizes={{name: value}}"
        ) from error
    static, dynamic = shared_memory_of(program.storage)
    occupancy = gpu.occupancy(launch.threads, resources.registers if resources else 0, static + dynamic)
    resident = max(occupancy.blocks, 1) * gpu.multiprocessors
    sampler = Sampler(program, launch, given)
    accesses = tuple([access_report(a, program, sampler, resident) for a in program.accesses])
    operations = _operations(program, sampler)
    units = dict.fromkeys([" ".join(key[:2]) for key in operations])
    unique = _unique_bytes(program, accesses)
    return KernelReport(
        name,
        gpu.device,
        launch,
        static,
        dynamic,
        resources,
        occupancy,
        launch.blocks / resident,
        accesses,
        {name: sum([n for key, n in operations.items() if name == " ".join(key[:2])]) for name in units},
        tuple(program.factors),
        unique,
        _bounds(gpu, operations, unique, accesses),
        program.barriers,
        not (program.unbounded or program.hidden)
        and all([a.known for a in accesses])
        and all([sampler.sample(a.scope).known for a in program.accesses]),
    )


def _operations(program: Program, sampler: Sampler) -> dict[tuple[str, str, str], float]:
    """Operations of all threads by unit, type of the factors and type of the sums."""
    found: dict[tuple[str, str, str], float] = {}
    for work in program.work:
        sample = sampler.sample(work.scope)
        threads = sampler.launch.blocks * sampler.width * float(np.mean(sample.active))
        key = work.unit, work.dtype, work.sums
        found[key] = found.get(key, 0.0) + work.operations * sample.steps * threads
    return {key: count for key, count in found.items() if count}


def _unique_bytes(program: Program, accesses: tuple[AccessReport, ...]) -> int:
    """Bytes of global memory that are touched: of each buffer what its accesses reach, at most."""
    touched: dict[Any, int] = {}
    ends: dict[Any, int] = {}
    for access, report in zip(program.accesses, accesses, strict=True):
        if report.memory == "global":
            touched[access.data] = touched.get(access.data, 0) + report.unique_bytes
            ends[access.data] = max(ends.get(access.data, 0), program.size(access) or report.end or 1 << 62)
    return sum([min(size, ends[data]) for data, size in touched.items()])


def _bounds(
    gpu: GpuFacts, operations: Mapping[tuple[str, str, str], float], unique: int, accesses: tuple[AccessReport, ...]
) -> tuple[Bound, ...]:
    """The least times by memory, arithmetic and shared memory, the largest first."""
    matrix = scalar = special = 0.0
    for (unit, dtype, sums), count in operations.items():
        if unit == "scalar":
            scalar += count / (gpu.peak(dtype, matrix=False) or float("inf"))
        elif unit == "special":
            special += count / (gpu.special_functions * gpu.multiprocessors * gpu.clock)
        else:
            matrix += count / (gpu.peak(dtype, sums) or float("inf"))
    passes = sum([a.requests * a.per_request for a in accesses if a.memory == "shared"])
    found = {
        "memory": unique / gpu.memory_bandwidth,
        "matrix units": matrix,
        "arithmetic": scalar,
        "special functions": special,
        "shared memory": passes / (gpu.multiprocessors * gpu.clock),
    }
    return tuple(sorted([Bound(n, s) for n, s in found.items() if s], key=lambda b: -b.seconds))


__all__ = ["Bound", "KernelReport", "analyze_kernel"]
