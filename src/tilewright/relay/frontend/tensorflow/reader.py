"""Opening of TensorFlow models: GraphDefs, frozen files and SavedModel folders, and the keys of their variables in the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message, dtype_name, message
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.value import near_text
from tilewright.relay.frontend.tensorflow.checkpoint import Checkpoint
from tilewright.relay.frontend.tensorflow.execution_conditions import split_ref
from tilewright.relay.frontend.tensorflow.tables import Contents
from tilewright.relay.frontend.tensorflow.tensors import shape_of, tensor_array
from tilewright.support.errors import ModelError, said

SAVED, VARIABLES = "saved_model.pb", "variables/variables"
REMEDY = "Copy or export it again"
DAMAGED = "Compare its size with the original's, and copy or export it again"


class Input:
    """An input of a model: its name, its tensor, extents (None: unknown rank; -1: dynamic) and element type."""

    __slots__ = ("dtype", "name", "ref", "shape")

    def __init__(self, name: str, ref: str, shape: Sequence[int] | None, dtype: str) -> None:
        self.name, self.ref, self.shape, self.dtype = name, ref, shape, dtype


class OpenedModel:
    """A model: its graph, its title in messages, its inputs, its outputs (name, tensor), and its checkpoint."""

    def __init__(
        self, graph: Message, title: str, inputs: list[Input], outputs: list[tuple[str, str]], version: str = ""
    ) -> None:
        self.graph, self.title, self.inputs, self.outputs, self.version = graph, title, inputs, outputs, version
        self.nodes: dict[str, Any] = {n.name: n for n in graph.node}
        self.functions: dict[str, Any] = {f.signature.name: f for f in graph.library.function}
        self.checkpoint: Checkpoint | None = None
        self.folder: Path | None = None
        self.keys: dict[str, str] | None = None
        self.restore = ""
        self.assets: dict[str, Path] = {}

    def tables(self) -> Contents:
        """The contents of the model's tables."""

        def saved(key: str) -> np.ndarray | None:
            if self.folder is None:
                return None
            self.checkpoint = self.checkpoint or Checkpoint(self.folder / VARIABLES)
            return self.checkpoint.array(key) if key in self.checkpoint else None

        return Contents(self.nodes, self.functions, self.assets, saved)

    def variable(self, name: str) -> np.ndarray:
        """A variable's value, from the checkpoint. Raises ModelError."""
        if self.folder is None:
            raise ModelError(
                f"{self.title}: the graph reads the variable {name!r}, whose value it does not hold. Freeze it"
                " (convert_variables_to_constants_v2), or give the folder of its SavedModel"
            )
        if self.checkpoint is None:
            self.checkpoint = Checkpoint(self.folder / VARIABLES)
        if self.keys is None:
            self.keys = self.restored()
        key = self.keys.get(name, name)
        if key not in self.checkpoint:
            raise ModelError(
                f"{self.title}: nothing restores the variable {name!r} from the checkpoint"
                f"{near_text(key, self.checkpoint.entries)}. Save the model with its variables"
            )
        return self.checkpoint.array(key)

    def restored(self) -> dict[str, str]:
        """Variable -> key of the checkpoint, from the assignments of the model's own restore operation."""
        found: dict[str, str] = {}
        self._follow(self.nodes, {}, found)
        start = self.nodes.get(self.restore)
        for node in [start] if start is not None else self.nodes.values():
            for a in node.attr.values():
                body = self.functions.get(a.func.name) if a.HasField("func") else None
                if body is None:
                    continue
                given = {
                    p.name: self._handle(self.nodes, {}, r)
                    for p, r in zip(body.signature.input_arg, node.input, strict=False)
                }
                self._follow({n.name: n for n in body.node_def}, given, found)
        return found

    def _follow(self, nodes: Mapping[str, Message], given: Mapping[str, str], found: dict[str, str]) -> None:
        for node in nodes.values():
            if node.op in ("AssignVariableOp", "Assign") and len(node.input) > 1:
                key = self._key(nodes, node.input[1])
                handle = self._handle(nodes, given, node.input[0])
                if key and handle:
                    found.setdefault(handle, key)

    def _handle(self, nodes: Mapping[str, Message], given: Mapping[str, str], ref: str) -> str:
        """The variable of a reference."""
        for _ in range(16):
            name = split_ref(ref)[0]
            if name in given:
                return given[name]
            node = nodes.get(name)
            if node is None:
                return ""
            if node.op == "VarHandleOp":
                return str(node.attr["shared_name"].s.decode(errors="replace") or node.name)
            if node.op in ("VariableV2", "Variable"):
                return str(node.name)
            if not node.input:
                return ""
            ref = node.input[0]
        return ""

    def _key(self, nodes: Mapping[str, Message], ref: str) -> str:
        """The key of the checkpoint that a reference restores."""
        for _ in range(16):
            parts = ref.split(":")
            node = nodes.get(parts[0])
            if node is None:
                return ""
            if node.op in ("RestoreV2", "Restore"):
                place = int(parts[-1]) if len(parts) > 1 else 0
                names = nodes.get(split_ref(node.input[1])[0])
                if names is None or names.op != "Const":
                    return ""
                keys = tensor_array(names.attr["value"].tensor, names.name).reshape(-1)
                return str(keys[place].decode(errors="replace")) if place < len(keys) else ""
            if not node.input:
                return ""
            ref = node.input[0]
        return ""


def open_model(source: Any, outputs: Sequence[str] | None = None, signature: str | None = None) -> OpenedModel:
    """Opens a GraphDef (TensorFlow's own, or its bytes), a .pb file or a SavedModel folder. Raises ModelError."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.is_dir():
            return _saved(path, signature)
        if not path.is_file():
            raise ModelError(
                f"{path}: there is no such file or folder. Give a SavedModel's folder, or a frozen graph (.pb)"
            )
        if path.name == SAVED:
            return _saved(path.parent, signature)
        return _graph(_parsed("GraphDef", path.read_bytes(), str(path)), str(path), outputs)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _graph(_parsed("GraphDef", bytes(source), "the given bytes"), "the given bytes", outputs)
    graph = source.as_graph_def() if hasattr(source, "as_graph_def") else source
    if isinstance(graph, message("GraphDef")):
        return _graph(graph, "the graph", outputs)
    if not hasattr(graph, "SerializeToString") or not hasattr(graph, "node"):
        raise TypeError(
            "from_tensorflow takes a GraphDef, a tf.Graph, its bytes, a .pb file or a SavedModel's folder, but was given"
            f" {type(source).__name__}"
        )
    return _graph(_parsed("GraphDef", graph.SerializeToString(), "the graph"), "the graph", outputs)


def _parsed(kind: str, data: bytes, title: str) -> Any:
    made = message(kind)()
    try:
        made.ParseFromString(data)
    except Exception as error:  # protobuf's own exception
        raise ModelError(
            f"{title}: this is no TensorFlow model, or a damaged one: its {len(data)} bytes do not parse ({said(error)}). {DAMAGED}"
        ) from None
    return made


def _graph(graph: Message, title: str, outputs: Sequence[str] | None) -> OpenedModel:
    with guarded(title, REMEDY):
        return _read_graph(graph, title, outputs)


def _read_graph(graph: Message, title: str, outputs: Sequence[str] | None) -> OpenedModel:
    if not len(graph.node):
        raise ModelError(
            f"{title}: this is no TensorFlow graph: it has no nodes. Give a frozen GraphDef, or a SavedModel's folder"
        )
    inputs = []
    for node in graph.node:
        if node.op in ("Placeholder", "PlaceholderV2"):
            shape = shape_of(node.attr["shape"].shape) if node.attr["shape"].HasField("shape") else None
            inputs.append(Input(node.name, f"{node.name}:0", shape, dtype_name(node.attr["dtype"].type)))
    nodes = {n.name: n for n in graph.node}
    if outputs is None:
        read = {split_ref(r)[0] for n in graph.node for r in n.input}
        idle = ("NoOp", "Assert", "Const", "Placeholder", "VarHandleOp")
        names = [n.name for n in graph.node if n.name not in read and n.op not in idle]
        found = [(n, f"{n}:0") for n in names]
    else:
        found = []
        for o in outputs:
            name = split_ref(o)[0]
            if name not in nodes:
                raise ModelError(f"{title}: outputs names {o!r}, which no node makes{near_text(name, nodes)}")
            found.append((o, o))
    return OpenedModel(graph, title, inputs, found)


def _saved(folder: Path, signature: str | None) -> OpenedModel:
    with guarded(str(folder), REMEDY):
        return _read_saved(folder, signature)


def _read_saved(folder: Path, signature: str | None) -> OpenedModel:
    path = folder / SAVED
    title = str(folder)
    if not path.is_file():
        raise ModelError(
            f"{folder}: the folder has no {SAVED}, so it is no SavedModel. Save it with tf.saved_model.save(model, folder)"
        )
    saved = _parsed("SavedModel", path.read_bytes(), str(path))
    metas = [m for m in saved.meta_graphs if "serve" in m.meta_info_def.tags] or list(saved.meta_graphs)
    if not metas:
        raise ModelError(f"{title}: the SavedModel holds no graph. {DAMAGED}")
    meta = metas[0]
    known = {k: s for k, s in meta.signature_def.items() if not k.startswith("__") and len(s.outputs)}
    if not known:
        raise ModelError(
            f"{title}: the SavedModel has no signature, which says what its inputs and outputs are. Save it with signatures="
            "tf.function(...).get_concrete_function(...)"
        )
    wanted = signature or (
        "serving_default" if "serving_default" in known else "serve" if "serve" in known else sorted(known)[0]
    )
    if wanted not in known:
        raise ModelError(f"{title}: there is no signature {wanted!r}, only {', '.join(sorted(known))}")
    chosen = known[wanted]
    inputs = [
        Input(name, info.name, shape_of(info.tensor_shape), dtype_name(info.dtype))
        for name, info in sorted(chosen.inputs.items())
    ]
    outputs = [(name, info.name) for name, info in sorted(chosen.outputs.items())]
    found = OpenedModel(meta.graph_def, title, inputs, outputs, meta.meta_info_def.tensorflow_version)
    found.folder, found.restore = folder, split_ref(meta.saver_def.restore_op_name)[0]
    # Files of tables must be beside the graph.
    found.assets = {
        split_ref(a.tensor_info.name)[0]: folder / "assets" / Path(a.filename).name for a in meta.asset_file_def
    }
    return found
