"""Names for a model's unnamed nodes, to which spans of an imported program refer."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

from tilewright.relay.frontend.onnx.order import all_nodes


def with_node_names(model: Any) -> Any:
    """A copy of a model (onnx.ModelProto, path or bytes). Nodes without a name get their operator's name and a number: Conv_0."""
    import onnx

    if isinstance(model, (str, os.PathLike)):
        copy = onnx.load(os.fspath(model))
    elif isinstance(model, (bytes, bytearray, memoryview)):
        copy = onnx.load_from_string(bytes(model))
    else:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
    nodes = list(all_nodes(copy.graph.node))
    taken = {node.name for node in nodes}
    numbers: dict[str, count[int]] = {}
    for node in nodes:
        while not node.name:
            name = f"{node.op_type}_{next(numbers.setdefault(node.op_type, count()))}"
            if name not in taken:
                node.name = name
    return copy


def export(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes a model to a path. For a folder (any path that does not end in .onnx), the file is named by the time."""
    import onnx

    place = Path(path)
    if place.suffix != ".onnx":
        place = place / f"tvm_exported_model_{time.strftime('%Y_%m_%d_%H_%M_%S')}.onnx"
    place.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(place))
