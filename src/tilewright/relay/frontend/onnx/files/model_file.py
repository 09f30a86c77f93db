"""ONNX files for the command line: description, import, and ONNX Runtime as the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import Message
from tilewright.ir import IRModule
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.files.reader import opset_versions, read_model
from tilewright.relay.frontend.onnx.importing import from_onnx, import_model
from tilewright.relay.frontend.onnx.inputs import declared, element_name, element_of
from tilewright.relay.frontend.onnx.operators import node_name, operator_title
from tilewright.relay.frontend.onnx.order import all_nodes
from tilewright.relay.transform.precision.fake_quantization import FakeQuantizationToInteger
from tilewright.support.errors import ModelError, TVMError, environment_fault
from tilewright.tir import Any as AnyDim


class OnnxFormat(formats.ModelFormat):
    """.onnx files."""

    name, title, suffixes, runtimes = "onnx", "ONNX", (".onnx",), ("onnxruntime",)

    def takes(self, path: Path) -> bool:
        """Whether the file is named .onnx, or begins like one: with the version of ONNX's format."""
        if super().takes(path) or not path.is_file():
            return super().takes(path)
        with path.open("rb") as file:
            start = file.read(3)
        return (
            len(start) == 3 and start[0] == 0x08 and 3 <= start[1] <= 32 and start[2] in (0x12, 0x1A, 0x22, 0x2A, 0x3A)
        )

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module; float32 operators between quantised tensors become integer operators."""
        mod, params = from_onnx(path, shape=dict(shapes) or None)
        return on_integers(mod), params

    def load_fixed(
        self, path: Path, shapes: formats.Shapes, values: Mapping[str, formats.Array]
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module; the importer evaluates all values that follow from the given ones."""
        proto, name, _, _ = read_model(path)
        weights = {t.name for t in proto.graph.initializer}
        inputs = {i.name: i for i in proto.graph.input if i.name not in weights}
        given = {}
        for key, value in values.items():
            if key not in inputs:
                raise ModelError(
                    f"{name}: the model has no input {key!r} to fix; its inputs are: {', '.join(inputs) or 'none'}"
                )
            tensor = inputs[key].type.tensor_type
            extents = [d if isinstance(d, int) else AnyDim() for d in declared(inputs[key])]
            kind = tensor_type(extents, element_name(tensor.elem_type) or "float32")
            given[key] = formats.as_declared(key, value, kind)
        found = import_model(path, dict(shapes) or None, given=given)
        return on_integers(found.mod), found.params

    def place_of(self, path: Path, name: str) -> tuple[str, int] | None:
        """The node that makes a tensor of this name."""
        for node in read_model(path)[0].graph.node:
            if name in node.output:
                return node_name(node), list(node.output).index(name)
        return None

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description of the file, with unsupported operators. Weights are not read."""
        proto, name, _, _ = read_model(path)
        graph = proto.graph
        operators: dict[str, list[str]] = {}
        bodies = [graph.node, *[f.node for f in proto.functions]]
        for node in [n for body in bodies for n in all_nodes(body)]:
            operators.setdefault(operator_title(node), []).append(node_name(node))
        weights = list(_weights(graph))
        known = {w.name for w in weights}
        opsets = opset_versions(proto, name)
        rules = ", ".join([f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets.items())])
        writer = " ".join([proto.producer_name, proto.producer_version]).strip()
        version = f"opset {opsets[''] if len(opsets) == 1 else rules}, IR version {proto.ir_version}"
        return formats.Survey(
            self.title,
            version + (f", written by {writer}" if writer else ""),
            operators,
            [_info(i) for i in graph.input if i.name not in known],
            [_info(o) for o in graph.output],
            weights,
        )

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """The model in ONNX Runtime without graph optimisations."""
        return OnnxRuntimeReference(path)


def on_integers(mod: IRModule) -> IRModule:
    """The module with integer operators in place of float32 ones between quantised tensors."""
    integers = FakeQuantizationToInteger()(mod)
    if integers is not mod:
        compatibility.QUANTISED.seen("main")
    return integers


def _info(proto: Message) -> formats.TensorInfo:
    """A tensor's declaration. A sequence, map or optional has no shape."""
    kind = proto.type.WhichOneof("value")
    if kind == "tensor_type":
        known = declared(proto) if proto.type.tensor_type.HasField("shape") else None
        shape = None if known is None else [d if isinstance(d, int) else d or "?" for d in known]
        return formats.TensorInfo(proto.name, element_name(proto.type.tensor_type.elem_type), shape)
    if kind is None:
        return formats.TensorInfo(proto.name, "", None)
    return formats.TensorInfo(proto.name, f"{kind.removesuffix('_type')} of {element_of(proto.type)}", None)


def _weights(graph: Message) -> Iterable[formats.TensorInfo]:
    """Initializers, and tensors with axes in Constant nodes."""
    for t in graph.initializer:
        yield formats.TensorInfo(t.name, element_name(t.data_type), [*t.dims])
    for s in graph.sparse_initializer:
        yield formats.TensorInfo(s.values.name, element_name(s.values.data_type), [*s.dims])
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for a in node.attribute:
                if a.HasField("t") and len(a.t.dims):
                    yield formats.TensorInfo(node.output[0], element_name(a.t.data_type), [*a.t.dims])


class OnnxRuntimeReference(formats.Reference):
    """A model in ONNX Runtime. Additional outputs of the graph give the results of its nodes."""

    title = "ONNX Runtime"

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ModelError(
                "--reference onnxruntime needs ONNX Runtime, which is not installed: pip install onnxruntime"
            ) from None
        import onnx

        self.path, self.runtime = path, onnxruntime
        self.proto = onnx.load(str(path), load_external_data=False)
        self.results: dict[str, list[str]] = {}
        self.nodes: dict[str, str] = {}
        twice = set()
        for node in self.proto.graph.node:
            name = node_name(node)
            if name in self.nodes:
                # A span with this name would be ambiguous.
                twice.add(name)
            self.nodes[name], self.results[name] = operator_title(node), [o for o in node.output if o]
        for name in twice:
            del self.nodes[name], self.results[name]
        self.outputs = [o.name for o in self.proto.graph.output]
        self.plain = self.session([])

    def session(self, more: Sequence[str]) -> Any:
        """A session with the model's outputs and these tensors as outputs."""
        import onnx

        proto = self.proto
        if more:
            proto = onnx.ModelProto()
            proto.CopyFrom(self.proto)
            proto.graph.output.extend([onnx.ValueInfoProto(name=n) for n in more])
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self.path.parent))
        try:
            return self.runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's own exceptions have no common base
            raise TVMError(environment_fault(error) or f"ONNX Runtime does not take {self.path}: {error}") from error

    def run(self, inputs: Mapping[str, formats.Array], nodes: Sequence[str] = ()) -> formats.Results:
        """Outputs, and the nodes' results that are tensors."""
        more = [t for n in nodes for t in self.results[n] if t not in self.outputs]
        session = self.session(more) if more else self.plain
        wanted = [*self.outputs, *more]
        try:
            found = dict(zip(wanted, session.run(wanted, dict(inputs)), strict=True))
        except Exception as error:
            raise TVMError(f"ONNX Runtime cannot run {self.path}: {error}") from error
        made = {n: [found[t] for t in self.results[n] if isinstance(found[t], np.ndarray)] for n in nodes}
        return [found[o] for o in self.outputs], made


formats.register_format(OnnxFormat())
