"""The node system: one declaration per node type drives construction, equality, hash, JSON and functors."""

from tilewright.node.base import (
    GRAPH,
    VALUE,
    VARIABLE,
    Def,
    Node,
    Skip,
    derived,
    install_immutability_guard,
    node_types,
    register_converter,
    register_printer,
)
from tilewright.node.field_values import register_leaf
from tilewright.node.functor import Mutator, Visitor, any_node, has_node, mutate_tuple, nodes_of, on, post_order_visit
from tilewright.node.json import load_json, save_json
from tilewright.node.object_path import ObjectPath
from tilewright.node.structural import (
    assert_structural_equal,
    deep_recursion,
    first_mismatch,
    get_first_structural_mismatch,
    register_plain_form,
    structural_digest,
    structural_equal,
    structural_hash,
)

__all__ = [
    "GRAPH",
    "VALUE",
    "VARIABLE",
    "Def",
    "Mutator",
    "Node",
    "ObjectPath",
    "Skip",
    "Visitor",
    "any_node",
    "assert_structural_equal",
    "deep_recursion",
    "derived",
    "first_mismatch",
    "get_first_structural_mismatch",
    "has_node",
    "install_immutability_guard",
    "load_json",
    "mutate_tuple",
    "node_types",
    "nodes_of",
    "on",
    "post_order_visit",
    "register_converter",
    "register_leaf",
    "register_plain_form",
    "register_printer",
    "save_json",
    "structural_digest",
    "structural_equal",
    "structural_hash",
]
