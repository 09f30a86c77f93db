"""Nodes as JSON text and back: one list of nodes in dependency order, so that sharing survives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.node.base import SKIP, Node, install_json, node_types
from tilewright.node.field_values import find_leaf, leaf_of_tag
from tilewright.support.errors import TVMError, said

FORMAT = 1


def save_json(node: Any, indent: int | None = None) -> str:
    """The JSON text of a node (or of a tuple, dict or plain value of nodes). `Skip` fields are left out."""
    writer = _Writer()
    writer.number_nodes(node)
    return json.dumps({"format": FORMAT, "root": writer.encode(node), "nodes": writer.nodes}, indent=indent)


def load_json(json_str: str) -> Any:
    """The value that `save_json` wrote. Raises TVMError when the text is not such a value."""
    try:
        doc = json.loads(json_str)
        if doc["format"] != FORMAT:
            raise TVMError(f"node JSON has format {doc['format']}, but this version reads format {FORMAT}")
        nodes: list[Node] = []
        for entry in doc["nodes"]:
            nodes.append(_read_node(entry, nodes))
        return _decode(doc["root"], nodes)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise TVMError(f"this text is not node JSON: {said(error)}") from error


def _children(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if type(value) in (tuple, list):
        return [c for item in value for c in _children(item)]
    if isinstance(value, Mapping):
        return [c for pair in value.items() for item in pair for c in _children(item)]
    return []


class _Writer:
    def __init__(self) -> None:
        self.index: dict[int, int] = {}
        self.nodes: list[dict[str, Any]] = []

    def number_nodes(self, value: Any) -> None:
        stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(_children(value))]
        while stack:
            node, ready = stack.pop()
            if id(node) in self.index:
                continue
            fields = [f for f in node._fields if f.kind is not SKIP]
            if ready:
                self.index[id(node)] = len(self.nodes)
                # Values were numbered before the node that holds them, so they can be written now.
                entry = {f.name: self.encode(getattr(node, f.name)) for f in fields}
                self.nodes.append({"type_key": node.type_key, **({"fields": entry} if entry else {})})
                continue
            stack.append((node, True))
            for f in reversed(fields):
                stack += [(n, False) for n in reversed(_children(getattr(node, f.name)))]

    def encode(self, v: Any) -> Any:
        if isinstance(v, Node):
            return {"n": self.index[id(v)]}
        if v is None or isinstance(v, (bool, int, float)) or type(v) is str:
            return v
        if type(v) in (tuple, list):
            return [self.encode(item) for item in v]
        if isinstance(v, Mapping):
            return {"map": [[self.encode(k), self.encode(x)] for k, x in v.items()]}
        leaf = find_leaf(type(v))
        if leaf is None:
            raise TypeError(f"a {type(v).__name__} cannot be written as JSON: {v!r}")
        return {"leaf": leaf.tag, "value": leaf.encode(v)}


def _decode(v: Any, nodes: list[Node]) -> Any:
    if isinstance(v, list):
        return tuple([_decode(item, nodes) for item in v])
    if isinstance(v, dict):
        if "n" in v:
            return nodes[v["n"]]
        if "map" in v:
            return {_decode(k, nodes): _decode(x, nodes) for k, x in v["map"]}
        return leaf_of_tag(v["leaf"]).decode(v["value"])
    return v


def _read_node(entry: dict[str, Any], nodes: list[Node]) -> Node:
    cls = node_types().get(entry["type_key"])
    if cls is None:
        raise TVMError(f"node JSON names the unknown type {entry['type_key']!r}")
    fields = entry.get("fields", {})
    return cls.restore(
        [
            _decode(fields[f.name], nodes) if f.kind is not SKIP else (None if f.required else f.default)
            for f in cls._fields
        ]
    )


install_json(save_json, load_json)
