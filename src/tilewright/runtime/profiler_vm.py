"""The virtual machine with a profiler: each call of a kernel, its time and the shapes it ran on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright.runtime import profiling
from tilewright.runtime.module import num_threads
from tilewright.runtime.vm import VirtualMachine


def enabled() -> bool:
    """Whether machines can be profiled: always."""
    return True


class VirtualMachineProfiler(VirtualMachine):
    """A virtual machine whose runs can be profiled."""

    def __init__(self, exe: Any, device: Any = None, memory_cfg: Any = None, depth_limit: int | None = None) -> None:
        super().__init__(exe, device, memory_cfg, depth_limit)
        self._tuned = profiling.tuned_kernels(exe)

    def profile(
        self,
        *args: Any,
        func_name: str = "main",
        collectors: Sequence[profiling.MetricCollector] | None = None,
        **kwargs: Any,
    ) -> profiling.Report:
        """One run of a function, after one to warm up, as a report with a row for each call of a kernel; kernels from records of tuning are
        marked. Without arguments it runs on what `set_input` set. Collectors watch the run as a whole."""
        given = self._arguments(func_name, args, kwargs)
        if given:
            self._invoke(func_name, *given)
        else:
            self.invoke_stateful(func_name)
        collectors = list(collectors or ())
        for c in collectors:
            c.init([profiling.DeviceWrapper(self.device)])
        text: list[str] = []
        _, extra = profiling.collect(
            lambda: text.append(self.module["profile"](func_name, *given)), self.device, collectors
        )
        whole, *records = json.loads(text[0])
        device = profiling.device_label(self.device)
        calls: list[dict[str, Any]] = [
            {
                "Name": name,
                "Duration (us)": profiling.Duration(seconds * 1e6),
                "Device": device,
                "Count": profiling.Count(1),
                "Argument Shapes": shapes,
                **self._tuned.get(name, {}),
            }
            for name, seconds, shapes in records
        ]
        configuration = {"Number of threads": profiling.Count(num_threads()), "Executor": "VM"}
        report = profiling.make_report(calls, {device: whole}, configuration)
        report.device_metrics[device].update(extra)
        return report


__all__ = ["VirtualMachineProfiler", "enabled"]
