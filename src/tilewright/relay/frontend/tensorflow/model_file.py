"""TensorFlow's files and folders for the command line: description and import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.formats.tensorflow_messages import dtype_name
from tilewright.ir import IRModule
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.tensorflow.frontend import from_tensorflow
from tilewright.relay.frontend.tensorflow.graph import reached
from tilewright.relay.frontend.tensorflow.reader import REMEDY, SAVED, open_model
from tilewright.relay.frontend.tensorflow.tensors import shape_of
from tilewright.support.errors import ModelError, TVMError


class TensorFlowFormat(formats.ModelFormat):
    """SavedModel folders, and frozen graphs (.pb)."""

    name, title, suffixes, runtimes = "tensorflow", "TensorFlow", (".pb",), ("tensorflow",)

    def takes(self, path: Path) -> bool:
        """Whether the path is a .pb file, or a folder with a saved_model.pb."""
        return (path / SAVED).is_file() if path.is_dir() else super().takes(path)

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module."""
        return from_tensorflow(path, shape=dict(shapes) or None)

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description of the file, with unsupported operators. Variables are not read."""
        opened = open_model(path)
        with guarded(opened.title, REMEDY):
            operators: dict[str, list[str]] = {}
            weights: list[formats.TensorInfo] = []
            for _, node in reached(opened.nodes, opened.functions, [ref for _, ref in opened.outputs]):
                operators.setdefault(node.op, []).append(node.name)
                if node.op == "Const" and len(node.attr["value"].tensor.tensor_shape.dim):
                    t = node.attr["value"].tensor
                    weights.append(formats.TensorInfo(node.name, dtype_name(t.dtype), shape_of(t.tensor_shape)))
                if node.op in ("VarHandleOp", "VariableV2"):
                    shape = shape_of(node.attr["shape"].shape)
                    weights.append(formats.TensorInfo(node.name, dtype_name(node.attr["dtype"].type), shape))
            inputs = [
                formats.TensorInfo(i.name, i.dtype, None if i.shape is None else ["?" if d < 0 else d for d in i.shape])
                for i in opened.inputs
            ]
        outputs = [formats.TensorInfo(n, "", None) for n, _ in opened.outputs]
        version = f"written by TensorFlow {opened.version}" if opened.version else "a graph"
        return formats.Survey(self.title, version, operators, inputs, outputs, weights)

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """TensorFlow itself."""
        return TensorFlowReference(path)


class TensorFlowReference(formats.Reference):
    """A model in TensorFlow. Only its outputs are available."""

    title = "TensorFlow"

    def __init__(self, path: Path) -> None:
        try:
            import tensorflow as tf
        except ImportError:
            raise ModelError("--reference tensorflow needs TensorFlow: pip install 'tilewright[tensorflow]'") from None
        self.tf, self.nodes = tf, {}
        self.opened = open_model(path)
        try:
            if path.is_dir():
                self.model = tf.saved_model.load(str(path))
                self.function = next(iter([*self.model.signatures.values()]))
            else:
                proto = tf.compat.v1.GraphDef()
                proto.ParseFromString(path.read_bytes())
                wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(proto, name=""), [])
                self.function = wrapped.prune([i.ref for i in self.opened.inputs], [r for _, r in self.opened.outputs])
        except Exception as error:  # TensorFlow's own exceptions have no common base
            raise TVMError(f"TensorFlow does not take {path}: {error}") from error

    def run(self, inputs: Mapping[str, formats.Array], nodes: Sequence[str] = ()) -> formats.Results:
        """The outputs."""
        tf = self.tf
        given = {k: tf.constant(v) for k, v in inputs.items()}
        made = self.function(**given) if self.opened.folder is not None else self.function(*given.values())
        if isinstance(made, Mapping):
            made = [made[n] for n, _ in self.opened.outputs]
        return [np.asarray(v) for v in (made if isinstance(made, (list, tuple)) else [made])], {}


formats.register_format(TensorFlowFormat())
