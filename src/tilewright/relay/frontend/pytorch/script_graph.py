"""The graph of a script: its nodes, its attributes, and the source lines of its nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NUMBER_TYPES = {"IntType": "int64", "FloatType": "float32", "BoolType": "bool"}
LINE = re.compile(r'^(?:\s*File "([^"\n]+)", line (\d+)|(\S[^\n]*?)\((\d+)\): )', re.M)
"""File and line in PyTorch's text about a node of a script, or of a trace."""


def is_tensor(value: Any) -> bool:
    """Whether a value of a graph is a tensor, or an optional tensor."""
    return value.type().kind() in ("TensorType", "OptionalType")


def number_dtype(value: Any) -> str | None:
    """The element type for a number of a graph; None for other values."""
    return NUMBER_TYPES.get(value.type().kind())


def script_inputs(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """Argument name -> value of the graph, for the inputs of a script. Names of the values have numbers appended."""
    names = [a.name for a in module._c._get_method("forward").schema.arguments][1:]
    values = [v for v in module.graph.inputs() if v.type().kind() != "ClassType"]
    return dict(zip(names if len(names) == len(values) else [v.debugName() for v in values], values, strict=True))


def inlined(module: torch.jit.ScriptModule) -> Any:
    """The graph of a script with its own methods inlined, without constant and unused parts."""
    import torch

    graph = module.graph.copy()
    torch._C._jit_pass_inline(graph)
    torch._C._jit_pass_constant_propagation(graph)
    torch._C._jit_pass_dce(graph)
    return graph


def nodes_of(graph: torch.Graph) -> list[Any]:
    """The nodes of a graph. Nodes of inner blocks come after the node with the blocks."""
    found = []
    for node in graph.nodes():
        found.append(node)
        for block in node.blocks():
            found += nodes_of(block)
    return found


def attribute_paths(graph: torch.Graph) -> list[str]:
    """Paths of the attributes that a graph reads or writes, in the order of first use."""
    paths = {i.debugName(): "" for i in graph.inputs()}
    found: dict[str, None] = {}
    for node in nodes_of(graph):
        if node.kind() in ("prim::GetAttr", "prim::SetAttr"):
            path = f"{paths[next(iter(node.inputs())).debugName()]}.{node.s('name')}".removeprefix(".")
            paths.update({o.debugName(): path for o in node.outputs()})
            found[path] = None
    return list(found)


def place_of(node: torch.Node) -> str:
    """An operator, its result's name, and its source line."""
    names = [o.debugName() for o in node.outputs()]
    try:
        text = node.sourceRange()
    except RuntimeError:  # In a damaged file the table of source lines may be the damaged part.
        text = ""
    found = LINE.search(text)
    file, line = (found[1] or found[3], found[2] or found[4]) if found else ("", "")
    result = f" %{names[0]}" if names else ""
    return f"{node.kind()}{result}" + (f" ({file.rpartition('/')[2]}:{line})" if found else "")
