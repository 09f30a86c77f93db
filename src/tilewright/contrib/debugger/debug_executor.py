"""A graph executor that also times each kernel of the model."""

from __future__ import annotations

from typing import Any

from tilewright import runtime
from tilewright.contrib import graph_executor
from tilewright.runtime import Device, Module


def create(
    graph_json_str: Any, libmod: Any, device: Device | list[Device], dump_root: str | None = None
) -> GraphModuleDebug:
    """A measuring executor from the parts of relay.build."""
    first = device[0] if isinstance(device, (list, tuple)) else device
    return GraphModuleDebug(libmod["default"](first))


class GraphModuleDebug(graph_executor.GraphModule):
    """`GraphModuleDebug(lib["default"](dev))`: run_individual times every kernel alone."""

    def __init__(self, module: Module, *unused: Any, **unused_options: Any) -> None:
        super().__init__(module)
        self.kernel_names: list[str] = [module["get_kernel_name"](i) for i in range(module["get_num_kernels"]())]

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Seconds of each kernel, in the order of the graph, `repeat` values each."""
        self._run()
        return [
            list(
                self.run_individual_node(
                    i,
                    number,
                    repeat,
                    min_repeat_ms,
                    limit_zero_time_iterations,
                    cooldown_interval_ms,
                    repeats_to_cooldown,
                ).results
            )
            for i in range(len(self.kernel_names))
        ]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> runtime.BenchmarkResult:
        """Seconds of one kernel."""
        timer = self.module.time_evaluator(
            "run_kernel",
            runtime.cpu(0),
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        return timer(index)
