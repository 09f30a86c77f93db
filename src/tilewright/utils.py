"""How near the kernels of a model are to what the machine allows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright import relay, te
from tilewright.cli.profiling import profile_kernels
from tilewright.contrib.graph_executor import GraphModule
from tilewright.driver import build
from tilewright.ir import IRModule
from tilewright.runtime import Device, num_threads
from tilewright.runtime.ndarray import array
from tilewright.runtime.profiling import Count, Duration, Percent, Ratio, Report
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.topi import identity
from tilewright.topi.x86 import schedule_injective

COPIED = 1 << 24
"""Elements of the arrays that are copied to measure memory: more bytes than caches hold."""


def peak_bandwidth(target: Target, dev: Device) -> float:
    """Bytes a second that threads read and write together when they copy an array that no cache holds; the best of a few copies."""
    source = te.placeholder((COPIED,), name="source")
    copied = identity(source)
    with target:
        function = build(schedule_injective([copied]), [source, copied], target)
    arrays = [array(np.zeros(COPIED, np.float32), dev) for _ in range(2)]
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        function(*arrays)
        best = min(best, time.perf_counter() - start)
    return 2 * 4 * COPIED / best


def roofline_analysis(
    mod: IRModule, params: Mapping[str, Any] | None, target: str | Target, dev: Device, remote: Any = None
) -> Report:
    """A report of the kernels of a model on this machine's processor, with random inputs: time, work, and the share of what its rooflines
    allow: the peaks of multiply-adds and of memory, both of which are measured meanwhile, on as many threads.

    A kernel is bound by the roof that it needs more time for. Its columns: "Bound", "Percent of Theoretical Optimal", "Arithmetic
    Intensity", "Estimated FLOPs", "Loaded Bytes", "GFLOP/s", "GB/s". Raises TVMError for other machines.
    """
    wanted = Target(target) if isinstance(target, str) else target
    if remote is not None or wanted.kind.name != "llvm":
        raise TVMError(
            "roofline_analysis measures the peaks of this machine's processor: the target must be llvm, and remote None"
        )
    library = relay.build(mod, target=wanted, params=params)
    executor = GraphModule(library["default"](dev))
    shapes, dtypes = executor.get_input_info()
    generator = np.random.default_rng(0)
    known = set(params or ())
    for name, shape in shapes.items():
        if name not in known:
            value = generator.uniform(0, 1, [int(d) for d in shape]).astype(dtypes[name])
            executor.set_input(name, value)
    executor.run()
    kernels = profile_kernels(executor, 0.5, num_threads())
    bandwidth = peak_bandwidth(wanted, dev)
    total = sum([k.microseconds for k in kernels])
    calls = []
    # Kernels of the CPU have peaks.
    peaks = [k.peak for k in kernels if k.peak is not None]
    for k, peak in zip(kernels, peaks, strict=True):
        by_work, by_memory = k.flops / (peak * 1e9), k.bytes / bandwidth
        least = max(by_work, by_memory)
        seconds = k.microseconds / 1e6
        calls.append(
            {
                "Name": k.name,
                "Duration (us)": Duration(k.microseconds),
                "Percent": Percent(100 * k.microseconds / total),
                "Device": str(dev),
                "Count": Count(1),
                "Bound": "compute" if by_work >= by_memory else "memory",
                "Percent of Theoretical Optimal": Ratio(100 * least / seconds),
                "Arithmetic Intensity": Ratio(k.flops / k.bytes if k.bytes else 0.0),
                "Estimated FLOPs": Count(k.flops),
                "Loaded Bytes": Count(k.bytes),
                "GFLOP/s": Ratio(k.flops / seconds / 1e9),
                "GB/s": Ratio(k.bytes / seconds / 1e9),
            }
        )
    settings = {
        "Number of threads": num_threads(),
        "Estimated Peak FLOP/s": max(peaks, default=0.0) * 1e9,
        "Estimated Peak Bandwidth (byte/second)": bandwidth,
        "Executor": "Graph",
    }
    return Report(calls, {str(dev): {"Duration (us)": Duration(total), "Device": str(dev)}}, settings)
