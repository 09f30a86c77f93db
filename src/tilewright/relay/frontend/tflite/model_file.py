"""TFLite files for the command line: what they say of themselves, their import, and LiteRT as their reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.backend.build import bind_params
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.common.value import ModelError
from tilewright.relay.frontend.tflite.flatbuffer import Record
from tilewright.relay.frontend.tflite.frontend import from_tflite, main_of
from tilewright.relay.frontend.tflite.graph import Importer
from tilewright.relay.frontend.tflite.reader import TFLiteModel, read_model, shape_of, type_name
from tilewright.relay.qnn.transform import CanonicalizeOps
from tilewright.relay.transform.convert_layout import ConvertLayout
from tilewright.relay.transform.infer_type import infer_module
from tilewright.support.errors import TVMError

LAYOUTS = {"nn.conv2d": ["NCHW", "default"], "nn.max_pool2d": ["NCHW"], "nn.avg_pool2d": ["NCHW"]}
"""Kernels of blocks of channels start from these."""


class TFLiteFormat(formats.ModelFormat):
    """.tflite files."""

    name, title, suffixes, runtimes = "tflite", "TFLite", (".tflite", ".lite"), ("tflite",)

    def takes(self, path: Path) -> bool:
        """.tflite files, and others that bear their mark."""
        if super().takes(path) or not path.is_file():
            return super().takes(path)
        with path.open("rb") as file:
            return file.read(8)[4:] == b"TFL3"

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, Any]]:
        """The module, its convolutions with channels before the image. Weights are bound: only of those that are known are products of
        bytes made."""
        mod, params = from_tflite(path, dict(shapes) or None)
        return ConvertLayout(LAYOUTS)(CanonicalizeOps()(infer_module(bind_params(mod, params)))), {}

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """What the file says, of operators that are not supported too; weights are not read."""
        model = read_model(path)
        _, inputs, outputs = main_of(model, None)
        operators: dict[str, list[str]] = {}
        for title, name, custom in Importer(model).reached(0):
            operators.setdefault(custom if name in ("CUSTOM", "UNKNOWN") else name, []).append(title)
        graph = model.root.subgraphs[0]
        weights = [
            _info(t.name or f"tensor_{k}", t) for k, t in enumerate(graph.tensors) if model.content(t) is not None
        ]
        return formats.Survey(
            self.title,
            f"schema {model.root.version}" + (f", {model.root.description}" if model.root.description else ""),
            operators,
            [_info(n, model.item(graph.tensors, i, "tensor")) for n, i in inputs],
            [_info(n, model.item(graph.tensors, i, "tensor")) for n, i in outputs],
            weights,
        )

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """LiteRT's reference kernels."""
        return LiteRTReference(path, read_model(path))


def _info(name: str, tensor: Record) -> formats.TensorInfo:
    shape = tensor.shape_signature if len(tensor.shape_signature) else tensor.shape
    return formats.TensorInfo(
        name,
        type_name(tensor).lower(),
        [int(d) if d >= 0 else "?" for d in shape] if len(shape) else list(shape_of(tensor)),
    )


class LiteRTReference(formats.Reference):
    """A model in LiteRT, every tensor of it kept."""

    title = "LiteRT"

    def __init__(self, path: Path, model: TFLiteModel) -> None:
        self.path = path
        graph = model.root.subgraphs[0]
        importer = Importer(model)
        self.results: dict[str, list[int]] = {}
        self.nodes: dict[str, str] = {}
        for k, op in enumerate(graph.operators):
            title = importer.title(graph, op, k)
            self.nodes[title] = model.operator_name(op)[0]
            self.results[title] = [int(i) for i in op.outputs]
        self.inputs = dict(main_of(model, None)[1])

    def run(self, inputs: Mapping[str, formats.Array], nodes: Sequence[str] = ()) -> formats.Results:
        """Outputs, and nodes' results."""
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ImportError:
            raise TVMError("comparing with LiteRT needs it: pip install 'tilewright[tflite]'") from None
        runner = Interpreter(
            model_path=str(self.path),
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        missing = [n for n in self.inputs if n not in inputs]
        if missing:
            raise ModelError(f"{self.path}: the inputs {', '.join(map(repr, missing))} were not given")
        for name, index in self.inputs.items():
            runner.resize_tensor_input(index, inputs[name].shape)
        runner.allocate_tensors()
        for name, index in self.inputs.items():
            runner.set_tensor(index, np.ascontiguousarray(inputs[name]))
        runner.invoke()
        outputs = [runner.get_tensor(d["index"]) for d in runner.get_output_details()]
        return outputs, {n: [runner.get_tensor(i) for i in self.results[n]] for n in nodes}


formats.register_format(TFLiteFormat())
