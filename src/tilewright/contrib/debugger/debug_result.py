"""The data that the debug executor gathers in a run: times and tensors of all nodes, as a table and as files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright import runtime
from tilewright.runtime import NDArray
from tilewright.support.files import write_whole

GRAPH_DUMP_FILE_NAME = "_tvmdbg_graph_dump.json"
CHROME_TRACE_FILE_NAME = "_tvmdbg_execution_trace.json"
OUTPUT_TENSORS_FILE_NAME = "output_tensors.params"

Row = list[Any]


class ChromeTraceEvent(NamedTuple):
    """The begin (ph "B") or end ("E") of a node in a trace, in microseconds (ts)."""

    ts: float
    tid: int
    pid: int
    name: str
    ph: str


def save_tensors(params: Mapping[str, Any]) -> bytes:
    """Tensors by name as bytes, which `load_param_dict` reads."""
    return bytes(runtime.save_param_dict(params))


class DebugResult:
    """Nodes of a graph with the times and tensors of a run. `dump_path` is a directory, or None to write nothing."""

    def __init__(self, graph_json: str, dump_path: str | None) -> None:
        graph = json.loads(graph_json)
        self._dump_path = dump_path
        self._nodes_list: list[dict[str, Any]] = graph["nodes"]
        self._row_ptr: list[int] = graph["node_row_ptr"]
        self._shapes: list[list[int]] = graph["attrs"]["shape"][1]
        self._dtypes: list[str] = graph["attrs"]["dltype"][1]
        self._time_list: list[list[float]] = []
        self._output_tensor_list: list[NDArray] = []
        self._fill_nodes()
        self.dump_graph_json(graph_json)

    def _fill_nodes(self) -> None:
        names = [n["name"] for n in self._nodes_list]
        for i, node in enumerate(self._nodes_list):
            node["op"] = "param" if node["op"] == "null" else node["attrs"]["func_name"]
            node["inputs"] = [names[ref[0]] for ref in node["inputs"]]
            node["shape"] = self._shapes[self._row_ptr[i]] if self.get_graph_node_output_num(node) else []
            node.setdefault("attrs", {})

    def get_graph_nodes(self) -> list[dict[str, Any]]:
        """The nodes: name, op, inputs by name, attrs, shape."""
        return self._nodes_list

    def get_graph_node_shapes(self) -> list[list[int]]:
        """Shapes of all tensors, in order."""
        return self._shapes

    def get_graph_node_dtypes(self) -> list[str]:
        """Dtypes of all tensors, in order."""
        return self._dtypes

    def get_graph_node_output_num(self, node: dict[str, Any]) -> int:
        """How many outputs a node has."""
        return int((node.get("attrs") or {}).get("num_outputs", 1))

    def get_output_tensors(self) -> dict[str, NDArray]:
        """The tensors of the last run by "<node>:<output>"."""
        found: dict[str, NDArray] = {}
        tensors = iter(self._output_tensor_list)
        for node in self._nodes_list if self._output_tensor_list else []:
            for j in range(self.get_graph_node_output_num(node)):
                found[f"{node['name']}:{j}"] = next(tensors)
        return found

    def update_output_tensors(self, tensors: Sequence[NDArray]) -> None:
        """Takes the tensors of a run, in the order of nodes and outputs."""
        self._output_tensor_list = [t if isinstance(t, NDArray) else runtime.array(t) for t in tensors]

    def _path(self, name: str) -> str | None:
        return os.path.join(self._dump_path, name) if self._dump_path else None

    def dump_output_tensor(self) -> None:
        """Writes the tensors of the last run as a parameter file (load_param_dict reads it)."""
        path = self._path(OUTPUT_TENSORS_FILE_NAME)
        if path is not None:
            write_whole(path, runtime.save_param_dict(self.get_output_tensors()))

    def dump_graph_json(self, graph: str) -> None:
        """Writes the graph."""
        path = self._path(GRAPH_DUMP_FILE_NAME)
        if path is not None:
            write_whole(path, json.dumps(json.loads(graph), indent=2).encode())

    def dump_chrome_trace(self) -> None:
        """Writes the nodes on a line of time, for chrome://tracing and its like."""
        path = self._path(CHROME_TRACE_FILE_NAME)
        if path is None or not self._time_list:
            return
        events = []
        at = 0.0
        for i, (node, times) in enumerate(zip(self._nodes_list, self._time_list, strict=True)):
            length = 1e6 * sum(times) / max(1, len(times))
            event = {"ts": at, "dur": length, "pid": 1, "tid": 1, "ph": "X", "name": node["name"]}
            events.append({**event, "args": {"node": i, "op": node["op"], "inputs": node["inputs"]}})
            at += length
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
        write_whole(path, text.encode())

    def save_tensors(self, params: dict[str, Any]) -> None:
        """Writes tensors as a parameter file beside the rest."""
        path = self._path(OUTPUT_TENSORS_FILE_NAME)
        if path is not None:
            write_whole(path, runtime.save_param_dict(params))

    def get_debug_result(self, sort_by_time: bool = True) -> tuple[list[str], list[Row]]:
        """Names of the columns, and a row for each node that computes."""
        header = ["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs", "Measurements(us)"]
        total = sum([sum(times) / max(1, len(times)) for times in self._time_list]) or 1e-12
        rows: list[Row] = []
        for node, times in zip(self._nodes_list, self._time_list, strict=True):
            if node["op"] in ("param", "__nop"):
                continue
            mean = sum(times) / max(1, len(times))
            rows.append(
                [
                    node["name"],
                    node["op"],
                    round(mean * 1e6, 3),
                    round(mean / total * 100, 3),
                    str(tuple(node["shape"])),
                    str(len(node["inputs"])),
                    str(self.get_graph_node_output_num(node)),
                    str([round(t * 1e6, 3) for t in times]),
                ]
            )
        if sort_by_time:
            rows.sort(key=lambda r: -r[2])
        rows.append(["Total_time", "-", round(total * 1e6, 3), "-", "-", "-", "-", "-"])
        return header, rows

    def display_debug_result(self, sort_by_time: bool = True) -> None:
        """Prints the table."""
        header, rows = self.get_debug_result(sort_by_time)
        cells = [header, ["-" * len(h) for h in header], *[[str(c) for c in r] for r in rows]]
        widths = [max([len(r[i]) for r in cells]) for i in range(len(header))]
        for r in cells:
            print("  ".join([c.ljust(w) for c, w in zip(r, widths, strict=True)]).rstrip())
