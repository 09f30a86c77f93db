"""TFLite files for the command line: description, import, and LiteRT as the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.formats.flatbuffer import Record
from tilewright.ir import IRModule
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.tflite.frontend import from_tflite, main_of
from tilewright.relay.frontend.tflite.graph import Importer
from tilewright.relay.frontend.tflite.litert import FASTER, answers
from tilewright.relay.frontend.tflite.reader import TFLiteModel, read_model, shape_of, type_name
from tilewright.relay.parameters import bind_params
from tilewright.relay.qnn.transform import CanonicalizeOps
from tilewright.relay.transform.layout.convert_layout import ConvertLayout
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import ModelError

LAYOUTS = {"nn.conv2d": ["NCHW", "default"], "nn.max_pool2d": ["NCHW"], "nn.avg_pool2d": ["NCHW"]}
"""Layouts before the conversion to channel blocks."""


ROUGH = 0.05
"""The allowed difference between a layer and LiteRT's faster kernels, as a part of its range: each kernel may round differently by one
unit, and later layers propagate it."""


class TFLiteFormat(formats.ModelFormat):
    """.tflite files."""

    name, title, suffixes, runtimes = "tflite", "TFLite", (".tflite", ".lite"), ("tflite",)

    def takes(self, path: Path) -> bool:
        """Whether a file is named .tflite, or has TFLite's file identifier."""
        if super().takes(path) or not path.is_file():
            return super().takes(path)
        with path.open("rb") as file:
            return file.read(8)[4:] == b"TFL3"

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, Any]]:
        """The module, with channels first in its convolutions. Weights are bound, since products of bytes need known
        weights."""
        mod, params = from_tflite(path, dict(shapes) or None)
        return ConvertLayout(LAYOUTS)(CanonicalizeOps()(infer_module(bind_params(mod, params)))), {}

    def as_written(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, Any]]:
        """The module, with channels last."""
        return from_tflite(path, dict(shapes) or None)

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description of the file, with unsupported operators. Weights are not read."""
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
    """A model in LiteRT, with access to all its tensors."""

    title: str = "LiteRT"

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
        """Outputs, and results of nodes."""
        missing = [n for n in self.inputs if n not in inputs]
        if missing:
            raise ModelError(f"{self.path}: the inputs {', '.join(map(repr, missing))} were not given")
        given = {index: inputs[name] for name, index in self.inputs.items()}
        wanted = sorted({i for n in nodes for i in self.results[n]})
        (outputs, tensors), kernels = answers(str(self.path), given, wanted)
        if kernels == FASTER:
            self.rounding = ROUGH
            self.title = "LiteRT's faster kernels (its reference kernels do not run this model)"
        return outputs, {n: [tensors[i] for i in self.results[n]] for n in nodes}


formats.register_format(TFLiteFormat())
