"""What a visualiser of relay programs consists of: nodes and edges, a parser that makes them of expressions, graphs and plotters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tilewright import relay
from tilewright.ir import Op

UNKNOWN_TYPE = "unknown"
"""The type of nodes that a parser does not know."""

Ids = Mapping[Any, str]
Params = Mapping[str, Any] | None


class VizNode:
    """A node of a graph: its name in the graph, its kind, and more lines about it."""

    def __init__(self, node_id: str, node_type: str, node_detail: str) -> None:
        self._id, self._type, self._detail = node_id, node_type, node_detail

    @property
    def identity(self) -> str:
        """The name in the graph."""
        return self._id

    @property
    def type_name(self) -> str:
        """The kind, such as the name of an operator."""
        return self._type

    @property
    def detail(self) -> str:
        """More lines: shapes, attributes."""
        return self._detail

    def __repr__(self) -> str:
        return f"VizNode(identity: {self._id}, type_name: {self._type}, detail: {self._detail}"


class VizEdge:
    """An edge between nodes, by their names."""

    def __init__(self, start_node: str, end_node: str) -> None:
        self._start, self._end = start_node, end_node

    @property
    def start(self) -> str:
        """Where it begins."""
        return self._start

    @property
    def end(self) -> str:
        """Where it ends."""
        return self._end


class VizParser(ABC):
    """Makes nodes and edges of expressions."""

    @abstractmethod
    def get_node_edges(self, node: Any, relay_param: Params, node_to_id: Ids) -> tuple[VizNode | None, list[VizEdge]]:
        """(the node of an expression, or None if it is not shown; the edges to it). relay_param: parameters by name. node_to_id: the
        names of all expressions."""


class VizGraph(ABC):
    """A graph that is drawn."""

    @abstractmethod
    def node(self, viz_node: VizNode) -> None:
        """Adds a node."""

    @abstractmethod
    def edge(self, viz_edge: VizEdge) -> None:
        """Adds an edge."""


class Plotter(ABC):
    """Draws graphs."""

    @abstractmethod
    def create_graph(self, name: str) -> VizGraph:
        """A new graph, of the function of this name."""

    @abstractmethod
    def render(self, filename: str | None = None) -> None:
        """Writes all graphs into a file, or shows them if it is None."""


class DefaultVizParser(VizParser):
    """Shows all expressions but operators: calls by the operator's name and attributes, variables and constants by type."""

    def get_node_edges(self, node: Any, relay_param: Params, node_to_id: Ids) -> tuple[VizNode | None, list[VizEdge]]:
        """The node of an expression and the edges from its operands."""
        if isinstance(node, Op):
            return None, []
        name = node_to_id[node]
        kind, lines, operands = self._described(node, relay_param)
        edges = [VizEdge(node_to_id[o], name) for o in operands if o in node_to_id and not isinstance(o, Op)]
        return VizNode(name, kind, "\n".join(lines)), edges

    def _described(self, node: Any, relay_param: Params) -> tuple[str, list[str], list[Any]]:
        """(kind, lines, operands) of an expression."""
        if isinstance(node, relay.Call):
            return _call(node)
        if isinstance(node, relay.Var):
            known = relay_param is not None and node.name_hint in relay_param
            kind = "Var(Param)" if known else "Var(Input)"
            return kind, [f"name_hint: {node.name_hint}", *_type_lines(node)], []
        if isinstance(node, relay.Constant):
            return "Const", [f"tensor: {tuple(node.data.shape)}, {node.data.dtype}", *_small(node)], []
        if isinstance(node, relay.Tuple):
            return "Tuple", [], list(node.fields)
        if isinstance(node, relay.TupleGetItem):
            return "TupleGetItem", [f"index: {node.index}"], [node.tuple_value]
        if isinstance(node, relay.Function):
            attrs = [f"{key}: {value}" for key, value in (node.attrs or {}).items()] if node.attrs else []
            return "Func", attrs, [node.body]
        if isinstance(node, relay.Let):
            return "Let", [], [node.value, node.body]
        if isinstance(node, relay.If):
            return "If", [], [node.cond, node.true_branch, node.false_branch]
        if isinstance(node, relay.GlobalVar):
            return "GlobalVar", [f"name_hint: {node.name_hint}"], []
        return UNKNOWN_TYPE, [f"don't know how to parse {type(node).__name__}"], []


def _call(node: Any) -> tuple[str, list[str], list[Any]]:
    callee = node.op
    if isinstance(callee, Op):
        attrs = node.attrs
        names = list(attrs.keys()) if attrs is not None else []
        return f"Call {callee.name}", [f"{name}: {getattr(attrs, name)}" for name in names], list(node.args)
    if isinstance(callee, relay.Function):
        return "Call Func", [], [callee, *node.args]
    return f"Call {getattr(callee, 'name_hint', type(callee).__name__)}", [], [callee, *node.args]


def _type_lines(node: Any) -> list[str]:
    annotation = node.type_annotation
    if annotation is None or not hasattr(annotation, "shape"):
        return [] if annotation is None else [f"type: {annotation}"]
    return [
        f"shape: {tuple([int(d) if str(d).isdigit() else str(d) for d in annotation.shape])}",
        f"dtype: {annotation.dtype}",
    ]


def _small(node: Any) -> list[str]:
    value = node.data.numpy()
    return [f"value: {value.reshape(-1)[0]}"] if value.size == 1 else []
