"""Relay programs as text: each expression on a line, its operands below it."""

from __future__ import annotations

from typing import Any

from tilewright.contrib.relay_viz.interface import (
    DefaultVizParser,
    Ids,
    Params,
    Plotter,
    VizEdge,
    VizGraph,
    VizNode,
    VizParser,
)


class TermVizParser(VizParser):
    """Shows an expression as its kind and its details on one line."""

    def __init__(self) -> None:
        self._default = DefaultVizParser()

    def get_node_edges(self, node: Any, relay_param: Params, node_to_id: Ids) -> tuple[VizNode | None, list[VizEdge]]:
        """The node of an expression and the edges from its operands."""
        found, edges = self._default.get_node_edges(node, relay_param, node_to_id)
        if found is None:
            return None, []
        return VizNode(found.identity, found.type_name, ", ".join(found.detail.splitlines())), edges


class TermNode:
    """A node with the nodes that it needs."""

    def __init__(self, viz_node: VizNode) -> None:
        self.type, self.detail = viz_node.type_name, viz_node.detail
        self.other_info = self.detail
        self.children: list[TermNode] = []


class TermGraph(VizGraph):
    """A tree of text. Nodes that several others need are drawn once, and named where they are needed again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: dict[str, TermNode] = {}
        self._last: TermNode | None = None

    def node(self, viz_node: VizNode) -> None:
        """Adds a node; the last one is the root."""
        self._last = self._nodes[viz_node.identity] = TermNode(viz_node)

    def edge(self, viz_edge: VizEdge) -> None:
        """Adds a node to those that another one needs."""
        start, end = self._nodes.get(viz_edge.start), self._nodes.get(viz_edge.end)
        if start is not None and end is not None:
            end.children.append(start)

    def render(self) -> str:
        """The text."""
        lines = [f"@{self._name}({', '.join([n.detail for n in self._nodes.values() if n.type.startswith('Var')])})"]
        drawn: dict[TermNode, int] = {}
        waiting = [(self._last, 0)] if self._last is not None else []
        while waiting:
            node, depth = waiting.pop()
            mark = "`--" if depth else ""
            text = f"{node.type}({node.detail})" if node.detail else node.type
            if node in drawn:
                lines.append(f"{'   ' * max(depth - 1, 0)}{mark}{node.type} of line {drawn[node]}")
                continue
            lines.append(f"{'   ' * max(depth - 1, 0)}{mark}{text}")
            if node.children:
                drawn[node] = len(lines)
            waiting += [(child, depth + 1) for child in reversed(node.children)]
        return "\n".join(lines)


class TermPlotter(Plotter):
    """Prints graphs, or writes them into a file of text."""

    def __init__(self) -> None:
        self._graphs: list[TermGraph] = []

    def create_graph(self, name: str) -> TermGraph:
        """A new graph, of the function of this name."""
        self._graphs.append(TermGraph(name))
        return self._graphs[-1]

    def render(self, filename: str | None = None) -> None:
        """Writes all graphs into `filename`; prints them if it is None or "stdout"."""
        text = "\n".join([graph.render() for graph in self._graphs])
        if filename is None or filename == "stdout":
            print(text)
            return
        with open(filename, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
