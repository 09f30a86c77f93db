"""A graph executor that runs, times and keeps every node of the graph.

module = debug_executor.create(lib.get_graph_json(), lib, tvm.cpu(0), dump_root="dump")
module.set_input("data", x)
module.run()                    # prints times by node, writes every tensor below dump_root
print(module.profile())         # one run as a report
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

from tilewright import runtime
from tilewright.contrib.debugger.debug_result import DebugResult
from tilewright.contrib.graph_executor import GraphModule, device_list, native_executor
from tilewright.runtime import BenchmarkResult, Device, Module, NDArray
from tilewright.runtime import profiling as reports
from tilewright.support.files import temporary_directory

_DUMP_ROOT_PREFIX = "tvmdbg_"
_DUMP_PATH_PREFIX = "_tvmdbg_"


def create(
    graph_json_str: str, libmod: Any, device: Device | Sequence[Device], dump_root: str | None = None
) -> GraphModuleDebug:
    """A debug executor of a graph and its library; files go below `dump_root`, or a directory that `exit` removes."""
    made = native_executor("tvm.graph_executor_debug.create", graph_json_str, libmod, device)
    return GraphModuleDebug(made, device_list(device), graph_json_str, dump_root)


class GraphModuleDebug(GraphModule):
    """`GraphModuleDebug(lib["debug_create"]("default", dev), [dev], lib.get_graph_json(), dump_root)`: a graph executor whose nodes
    run and are timed one by one, and whose tensors can all be read. Nodes are numbered as in the graph, inputs included."""

    def __init__(
        self,
        module: Module,
        device: Device | Sequence[Device],
        graph_json_str: str,
        dump_root: str | None = None,
    ) -> None:
        if not module.implements_function("execute_node"):
            raise ValueError(
                f"a module of kind {module.type_key} keeps no single nodes; make one that does:"
                ' lib["debug_create"]("default", device)'
            )
        super().__init__(module)
        self._devices = device_list(device)
        self._dump_root = dump_root
        self._own_root = dump_root is None
        self._dump_path: str | None = None
        self._execute_node = module["execute_node"]
        self._get_node_output = module["get_node_output"]
        self._create_debug_env(graph_json_str)
        self._next = 0

    def _format_device(self) -> str:
        return str(self._devices[0]).upper().replace("(", ":").replace(")", "")

    def _create_debug_env(self, graph_json_str: str) -> None:
        root = self._dump_root
        if root is None:
            root = self._dump_root = tempfile.mkdtemp(prefix=_DUMP_ROOT_PREFIX, dir=temporary_directory())
        self._dump_path = os.path.join(root, f"{_DUMP_PATH_PREFIX}device_{self._format_device()}")
        os.makedirs(self._dump_path, exist_ok=True)
        self.debug_datum = DebugResult(graph_json_str, self._dump_path)
        graph = json.loads(graph_json_str)
        self._attrs: dict[str, Any] = graph["attrs"]
        self._row_ptr: list[int] = graph["node_row_ptr"]
        self._inputs: list[list[list[int]]] = [n["inputs"] for n in graph["nodes"]]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the graph, in the order in which they run."""
        return self.debug_datum.get_graph_nodes()

    def node_index(self, node: int | str) -> int:
        """The number of a node given by number or name; AttributeError when there is none of that name."""
        if isinstance(node, str):
            for i, graph_node in enumerate(self.nodes):
                if graph_node["name"] == node:
                    return i
            raise AttributeError(f"Could not find a node named {node} in this graph.")
        if isinstance(node, int):
            if not 0 <= node < len(self.nodes):
                raise IndexError(f"node {node} is out of range: the graph has {len(self.nodes)}")
            return node
        raise RuntimeError("Require node index or name only.")

    # ---- single nodes

    def execute_node(self, node: int | str) -> None:
        """Runs one node on what its inputs hold now."""
        self._execute_node(self.node_index(node))

    def get_node_output(self, node: int | str, index: int = 0) -> NDArray:
        """A copy of what a node's output holds now: its result, until a later node takes its memory."""
        found: NDArray = self._get_node_output(self.node_index(node), index)
        return found

    def execute_next_node(self) -> int:
        """Runs the node after the one that was run last, and returns its number; after the last node the first follows."""
        i = self._next
        self._execute_node(i)
        self._next = (i + 1) % len(self.nodes)
        return i

    def execute_next_node_get_output(self, index: int = 0) -> NDArray:
        """Runs the next node; one of its outputs."""
        return self.get_node_output(self.execute_next_node(), index)

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """Runs the graph up to a node, given by number or name; its first output, in `out` where that is given."""
        found: NDArray = self.module["debug_get_output"](self.node_index(node), out)
        return found

    # ---- whole runs

    def run(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 1,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **input_dict: Any,
    ) -> None:
        """Runs every node, timed as time_evaluator does; writes tensors, times and graph; prints the times."""
        if input_dict:
            self.set_input(**input_dict)
        self.debug_datum._time_list = self.run_individual(
            number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown
        )
        self._run_per_layer()
        self.debug_datum.dump_output_tensor()
        self.debug_datum.dump_chrome_trace()
        self.debug_datum.display_debug_result()

    def _run_per_layer(self) -> None:
        """Runs the graph once, and keeps all tensors as each node leaves them."""
        tensors: list[NDArray] = []
        for i, node in enumerate(self.nodes):
            self._execute_node(i)
            tensors += [self._get_node_output(i, j) for j in range(self.debug_datum.get_graph_node_output_num(node))]
        self.debug_datum.update_output_tensors(tensors)

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Seconds of each node, in order, `repeat` values each; zeros for nodes that compute nothing."""
        plan = (number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
        self._run()
        return [list(self.run_individual_node(i, *plan).results) for i in range(len(self.nodes))]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """Seconds of one node, on what its inputs hold now. A node that writes over its input computes something else each time;
        run the whole graph before its results are used."""
        if self.nodes[self.node_index(index)]["op"] in ("param", "__nop"):
            return BenchmarkResult([0.0] * repeat)
        timer = self.module.time_evaluator(
            "execute_node",
            self._devices[0],
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        return timer(index)

    def profile(self, collectors: Sequence[reports.MetricCollector] | None = None, **input_dict: Any) -> reports.Report:
        """One run, after one to warm up, as a report with a row for each node; those that call kernels from records of tuning are marked.
        Without collectors it is timed natively."""
        if input_dict:
            self.set_input(**input_dict)
        self._run()
        collectors = list(collectors or ())
        extra: dict[int, dict[str, Any]] = {}
        if collectors:
            for c in collectors:
                c.init([reports.DeviceWrapper(d) for d in self._devices])
            seconds = []
            for i, node in enumerate(self.nodes):
                spent = 0.0
                if node["op"] not in ("param", "__nop"):
                    spent, extra[i] = reports.collect(lambda i=i: self._execute_node(i), self._devices[0], collectors)  # type: ignore[misc]
                seconds.append(spent)
        else:
            data: bytes = self.module["run_ops"]()
            seconds = list(struct.unpack(f"{len(data) // 8}d", data))
        tuned = reports.tuned_kernels(self.module)
        calls: list[dict[str, Any]] = []
        totals: dict[str, float] = {}
        for i, (node, spent) in enumerate(zip(self.nodes, seconds, strict=True)):
            if node["op"] in ("param", "__nop"):
                continue
            device = self._device_of(i)
            totals[device] = totals.get(device, 0.0) + spent
            calls.append(
                {
                    "Name": node["op"],
                    "Duration (us)": reports.Duration(spent * 1e6),
                    "Device": device,
                    "Count": reports.Count(1),
                    "Argument Shapes": self._argument_shapes(i),
                    "Hash": node["attrs"].get("hash", ""),
                    **tuned.get(node["attrs"].get("func_name", ""), {}),
                    **extra.get(i, {}),
                }
            )
        configuration = {"Number of threads": reports.Count(runtime.num_threads()), "Executor": "Graph"}
        return reports.make_report(calls, totals or {reports.device_label(self._devices[0]): 0.0}, configuration)

    def _device_of(self, node: int) -> str:
        attrs = self._attrs
        at = self._row_ptr[node]
        if "device_id" not in attrs:
            return reports.device_label(self._devices[0])
        return reports.device_label(Device(attrs["device_index"][1][at], attrs["device_id"][1][at]))

    def _argument_shapes(self, node: int) -> str:
        def text(entry: int) -> str:
            return f"{self.debug_datum.get_graph_node_dtypes()[entry]}{self.debug_datum.get_graph_node_shapes()[entry]}"

        row, inputs = self._row_ptr, self._inputs[node]
        entries = [row[n] + k for n, k, *_ in inputs] + list(range(row[node], row[node + 1]))
        return ", ".join([text(e) for e in entries])

    def exit(self) -> None:
        """Removes the files, where they are in a directory of its own."""
        if self._own_root and self._dump_root is not None:
            shutil.rmtree(self._dump_root, ignore_errors=True)
