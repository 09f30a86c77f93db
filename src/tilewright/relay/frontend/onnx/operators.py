"""Names of operators, and the set of supported ones."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from tilewright.formats.onnx_messages import Message
from tilewright.relay.frontend.onnx.fold import folders
from tilewright.relay.frontend.onnx.functions import is_function
from tilewright.relay.frontend.onnx.order import all_nodes
from tilewright.relay.frontend.onnx.value import converters, find_converter


def plain_domain(domain: str) -> str:
    """A domain's name; ONNX's own domain is ""."""
    return "" if domain == "ai.onnx" else domain


def operator_title(proto: Message) -> str:
    """The operator of a node, with a domain other than ONNX's own."""
    domain = plain_domain(proto.domain)
    return f"{domain}::{proto.op_type}" if domain else str(proto.op_type)


def node_name(proto: Message) -> str:
    """The node's name, or the name of its first output."""
    return str(proto.name or next((o for o in proto.output if o), proto.op_type))


def supported_operators(opset: int, domain: str = "") -> list[str]:
    """Names of the supported operators of a domain at an opset."""
    from onnx import defs

    known = {n for d, n in converters if d == domain and find_converter(n, opset, d)}
    if not domain:
        known |= set(folders)
    known |= {s.name for s in defs.get_all_schemas() if s.domain == domain and is_function(s.name, opset, domain)}
    return sorted(known)


def is_supported(node: Message, opsets: Mapping[str, int], functions: Container[tuple[str, str, str]]) -> bool:
    """Whether a node's operator is a function of the model, or is supported."""
    domain = plain_domain(node.domain)
    version = opsets.get(domain, 1)
    return (
        (node.domain, node.op_type, node.overload) in functions
        or find_converter(node.op_type, version, domain) is not None
        or not domain
        and node.op_type in folders
        or is_function(node.op_type, version, domain)
    )


def unsupported_operators(
    bodies: Iterable[Sequence[Any]], opsets: Mapping[str, int], functions: Container[tuple[str, str, str]]
) -> dict[tuple[str, str], list[str]]:
    """(domain, type) of unsupported operators -> the names of their nodes, also in subgraphs."""
    unknown: dict[tuple[str, str], list[str]] = {}
    for nodes in bodies:
        for node in all_nodes(nodes):
            if not is_supported(node, opsets, functions):
                unknown.setdefault((plain_domain(node.domain), node.op_type), []).append(node_name(node))
    return dict(sorted(unknown.items()))
