"""The order of a graph's nodes: some exporters write a node before its inputs, which ONNX Runtime accepts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.formats.onnx_messages import Message
from tilewright.relay.frontend.onnx import compatibility


def subgraphs(nodes: Sequence[Message]) -> Iterable[Any]:
    """The subgraphs of nodes."""
    for node in nodes:
        for a in node.attribute:
            for g in [a.g] if a.HasField("g") else a.graphs:
                yield g
                yield from subgraphs(g.node)


def all_nodes(nodes: Sequence[Message]) -> Iterable[Any]:
    """The nodes, including those in subgraphs."""
    yield from nodes
    for g in subgraphs(nodes):
        yield from g.node


def reads(node: Message) -> set[str]:
    """The outer tensors that a node, or a subgraph of it, reads."""
    found = set(node.input)
    for g in subgraphs([node]):
        own = {i.name for i in g.input} | {t.name for t in g.initializer} | {o for n in g.node for o in n.output}
        found |= ({i for n in g.node for i in n.input} | {o.name for o in g.output}) - own
    return found - {""}


def in_order(nodes: Sequence[Message]) -> Sequence[Any]:
    """The nodes in topological order; unchanged if they are already ordered, or have a cycle."""
    made: dict[str, int] = {}
    for k, node in enumerate(nodes):
        for o in node.output:
            made.setdefault(o, k)
    needs = [{made[name] for name in reads(node) if made.get(name, k) != k} for k, node in enumerate(nodes)]
    late = [k for k, before in enumerate(needs) if before and max(before) > k]
    if not late:
        return nodes
    users: list[list[int]] = [[] for _ in nodes]
    for k, before in enumerate(needs):
        for b in before:
            users[b].append(k)
    left = [len(before) for before in needs]
    ready = [k for k, count in enumerate(left) if not count]
    order = []
    while ready:
        k = heapq.heappop(ready)
        order.append(nodes[k])
        for user in users[k]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        return nodes
    compatibility.OUT_OF_ORDER.seen(nodes[late[0]].name or nodes[late[0]].output[0])
    return order
