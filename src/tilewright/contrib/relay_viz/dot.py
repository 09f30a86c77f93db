"""Relay programs as graphs in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.contrib.relay_viz.interface import DefaultVizParser, Plotter, VizEdge, VizGraph, VizNode

DotVizParser = DefaultVizParser

Attributes = Mapping[str, str] | None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class DotGraph(VizGraph):
    """A graph of nodes as boxes. get_node_attr: the attributes of Graphviz of a node."""

    def __init__(
        self,
        name: str,
        graph_attr: Attributes = None,
        node_attr: Attributes = None,
        edge_attr: Attributes = None,
        get_node_attr: Any = None,
    ) -> None:
        self.name = name
        self._lines = [
            f"  {kind} [{', '.join([f'{k}={_quoted(v)}' for k, v in values.items()])}];"
            for kind, values in (("graph", graph_attr), ("node", node_attr), ("edge", edge_attr))
            if values
        ]
        self._of_node = get_node_attr

    def node(self, viz_node: VizNode) -> None:
        """Adds a node, labelled by its kind and details."""
        more = dict(self._of_node(viz_node)) if self._of_node is not None else {"shape": "box"}
        label = "\n".join([t for t in (viz_node.type_name, viz_node.detail) if t])
        words = ", ".join([f"{k}={_quoted(v)}" for k, v in {"label": label, **more}.items()])
        self._lines.append(f"  {_quoted(viz_node.identity)} [{words}];")

    def edge(self, viz_edge: VizEdge) -> None:
        """Adds an edge."""
        self._lines.append(f"  {_quoted(viz_edge.start)} -> {_quoted(viz_edge.end)};")

    def text(self) -> str:
        """The graph in the language of Graphviz."""
        return "\n".join([f"digraph {_quoted(self.name)} {{", *self._lines, "}"])


class DotPlotter(Plotter):
    """Writes a file for each graph, which `dot -Tpdf` draws."""

    def __init__(
        self,
        graph_attr: Attributes = None,
        node_attr: Attributes = None,
        edge_attr: Attributes = None,
        get_node_attr: Any = None,
    ) -> None:
        self._options = graph_attr, node_attr, edge_attr, get_node_attr
        self._graphs: list[DotGraph] = []

    def create_graph(self, name: str) -> DotGraph:
        """A new graph, of the function of this name."""
        self._graphs.append(DotGraph(name, *self._options))
        return self._graphs[-1]

    def render(self, filename: str | None = None) -> None:
        """Writes `<filename>_<function>.gv` for each graph; prints them if `filename` is None."""
        for graph in self._graphs:
            if filename is None:
                print(graph.text())
                continue
            with open(f"{filename}_{graph.name}.gv", "w", encoding="utf-8") as file:
                file.write(f"{graph.text()}\n")
