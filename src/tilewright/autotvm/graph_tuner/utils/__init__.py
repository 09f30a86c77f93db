"""Graphs of a model's operators as lists, as programs that choose layouts walk them; see `relay.backend.graph_tuner.node_list`."""

from tilewright.support import lazy

HOME = "tilewright.relay.backend.graph_tuner.node_list"
NAMES = {
    "traverse_graph": ("expr2graph", "get_direct_ancestor", "get_in_nodes", "get_out_nodes"),
    "utils": ("bind_inputs", "has_multiple_inputs", "is_boundary_node", "is_skipped_node"),
}

lazy.declare(__name__, {name: f"{HOME}:{name}" for names in NAMES.values() for name in names})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [*lazy.names(__name__)]
