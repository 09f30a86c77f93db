"""Tools of programs that import TensorFlow graphs, besides the importer (classic `relay.testing.tf`). TensorFlow is imported
when it is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tilewright.runtime import NDArray
from tilewright.runtime.container import ADT

__all__ = ["AddShapesToGraphDef", "NodeLookup", "ProcessGraphDefParam", "convert_to_list", "vmobj_to_list"]


def convert_to_list(x: Any) -> list[Any]:
    """A list as it is, anything else as the only element of one."""
    return x if isinstance(x, list) else [x]


def vmobj_to_list(o: Any) -> list[Any]:
    """The results of the virtual machine as arrays in one list; data types and tuples are flattened."""
    if isinstance(o, NDArray):
        return [o.numpy()]
    if isinstance(o, (ADT, list, tuple)):
        return [a for f in o for a in vmobj_to_list(f)]
    raise RuntimeError(f"Unknown object type: {type(o).__name__}; results are NDArrays, or ADTs and tuples of them")


def ProcessGraphDefParam(graph_def: Any) -> Any:
    """A GraphDef as it is. TypeError for anything else."""
    if not hasattr(graph_def, "node") or not hasattr(graph_def, "SerializeToString"):
        raise TypeError(f"graph_def must be a GraphDef proto, but is {type(graph_def).__name__}")
    return graph_def


def AddShapesToGraphDef(session: Any, out_node: Any) -> Any:
    """The graph of a session of TensorFlow with variables as constants and shapes as attributes. out_node: names of its results."""
    from tensorflow.compat import v1  # type: ignore[import-not-found, unused-ignore]

    graph_def = session.graph.as_graph_def(add_shapes=True)
    return v1.graph_util.convert_variables_to_constants(session, graph_def, convert_to_list(out_node))


class NodeLookup:
    """Names of ImageNet's classes by number, from the files of the Inception model: `label_lookup_path` has the identifier of each number
    (imagenet_2012_challenge_label_map_proto.pbtxt), `uid_lookup_path` the name of each identifier
    (imagenet_synset_to_human_label_map.txt). FileNotFoundError where there is no such file."""

    def __init__(self, label_lookup_path: str | Path | None = None, uid_lookup_path: str | Path | None = None) -> None:
        self.node_lookup = self.load(label_lookup_path, uid_lookup_path)

    def load(self, label_lookup_path: Any, uid_lookup_path: Any) -> dict[int, str]:
        """The names by number."""
        lines = Path(uid_lookup_path).read_text().splitlines()
        found = [re.match(r"(n\d+)\s+(.+)", line) for line in lines]
        names = {m[1]: m[2] for m in found if m is not None}
        text = Path(label_lookup_path).read_text()
        entries = re.findall(r"target_class:\s*(\d+)\s+target_class_string:\s*\"(.+?)\"", text)
        unknown = [uid for _, uid in entries if uid not in names]
        if unknown:
            raise ValueError(f"{uid_lookup_path} has no name for {unknown[0]}, which {label_lookup_path} mentions")
        return {int(number): names[uid] for number, uid in entries}

    def id_to_string(self, node_id: int) -> str:
        """The name of a class; the empty text for a number that has none."""
        return self.node_lookup.get(node_id, "")
