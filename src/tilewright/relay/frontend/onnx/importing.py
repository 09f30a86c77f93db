"""from_onnx: the entry of the ONNX importer, which makes a module of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.formats.onnx_messages import Message
from tilewright.ir import IRModule
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.module import module_of, string_attrs
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.choices import one_value
from tilewright.relay.frontend.onnx.files.reader import opset_versions, read_model
from tilewright.relay.frontend.onnx.graph import FAILED, Importer
from tilewright.relay.frontend.onnx.interface import DynamicOptionalOf, Interface, Leaf, MapOf, PackedOf, Tree
from tilewright.relay.frontend.onnx.renamed import export, with_node_names
from tilewright.relay.frontend.onnx.unsupported import Unsupported
from tilewright.relay.frontend.onnx.value import (
    Choice,
    DynamicOptional,
    ListValue,
    MapValue,
    OnnxNode,
    Packed,
    Unknown,
    Value,
    elements_of,
)
from tilewright.runtime.host_functions.registry import Config
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError, ModelWarning, TVMError

OPTIONS = ("use_nt_batch_matmul",)
"""The entries of `convert_config`."""


class Imported:
    """The result of an import: the module, its parameters, the interface between the model's inputs and outputs and `main`, and the
    declared shapes that contradict the nodes."""

    __slots__ = ("contradictions", "interface", "mod", "params")

    def __init__(
        self, mod: IRModule, params: dict[str, Any], interface: Interface, contradictions: Sequence[str] = ()
    ) -> None:
        self.mod, self.params, self.interface, self.contradictions = mod, params, interface, contradictions


@paused_collection()
def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Config | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, Any]]:
    """A module with `main`, and its parameters, from an ONNX model.

    model: onnx.ModelProto, path or bytes. shape: extents to pin, by input name; -1 or None keeps an axis symbolic.
    dtype: for inputs without a declared one. opset: overrides the model's own. freeze_params: weights become constants of `main`;
    else they are its last parameters, and the dictionary has their values. convert_config: "use_nt_batch_matmul" (products of
    batches use nn.batch_matmul with a transposed second factor; False saves the transposition, and gives the same results).
    export_node_renamed_model_path: writes the model with names for unnamed nodes (Conv_0), to which spans refer, to this path:
    a folder, or a path that ends in .onnx.

    Raises ModelError (unreadable model, unknown names in `shape`) and OpNotImplemented, which lists all unsupported parts. Warns
    (ModelWarning) about declared shapes that differ from those of the nodes.
    """
    unknown = [k for k in convert_config or {} if k not in OPTIONS]
    if unknown:
        raise ModelError(f"convert_config has the entry {unknown[0]!r}; known: {', '.join(OPTIONS)}")
    if export_node_renamed_model_path is not None:
        read_model(model)  # raises the errors of an unreadable model
        model = with_node_names(model)
    found = import_model(model, shape, dtype, opset, freeze_params, options=convert_config)
    if export_node_renamed_model_path is not None:
        export(model, export_node_renamed_model_path)
    for text in found.contradictions:
        # The level of the caller, above the decorator.
        warnings.warn(text, ModelWarning, stacklevel=3)
    return found.mod, found.params


def import_model(
    model: Any,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    given: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Imported:
    """`from_onnx` with all its results. shape: for an input that is a sequence, the (dtype, shape) of each tensor.
    given: values of inputs, which become constants. options: `convert_config` of from_onnx."""
    proto, name, folder, weights = read_model(model)
    versions = opset_versions(proto, name, opset)
    with guarded(name, "Copy or export it again; onnx.checker.check_model says where"):
        importer = Importer(name, folder, versions, freeze_params, weights, proto.functions)
        importer.transposed_products = bool((options or {}).get("use_nt_batch_matmul", False))
        _walk(importer, proto.graph, dict(shape or {}), dtype, given or {})
        fields = _Fields(importer)
        for o in proto.graph.output:
            importer.interface.outputs[o.name] = fields.tree(o.name, _result(importer, o))
        if not proto.graph.output:
            raise ModelError(f"{name}: the graph has no outputs")
        params = [*importer.inputs.variables, *importer.weights]
        attrs = string_attrs(importer.inputs.strings, fields.strings)
        mod = module_of(name, params, fields.exprs, fields.names, attrs)
        return Imported(mod, dict(importer.params), importer.interface, importer.declarations.contradictions)


def _walk(
    importer: Importer, graph: Message, shapes: dict[str, Any], dtype: str | Mapping[str, str], given: Mapping[str, Any]
) -> None:
    """Converts the main graph. Raises all unsupported parts together, before other errors."""
    importer.check_supported(graph)
    scope: dict[str, Any] = {}
    importer.scopes.append(scope)
    importer.declarations.read([*graph.value_info, *graph.output])
    try:
        importer.initializers(graph)
        real = [i for i in graph.input if i.name not in scope]
        for i in graph.input:
            if i.name in scope:
                compatibility.WEIGHTS_AS_INPUTS.seen(i.name)
        scope.update(importer.inputs.values(real, shapes, dtype, given))
        importer.nodes(graph.node, {o.name for o in graph.output})
    except TVMError:
        importer.findings.finish(importer.name, importer.opset)
        raise
    importer.findings.finish(importer.name, importer.opset)


def _result(importer: Importer, info: Message) -> Any:
    """The value of an output of the model."""
    value = importer.declared_rank(info, importer.find(info.name, "an output of the model"))
    value = one_value(OnnxNode("Identity", info.name, {}, importer.opset, [], set(), importer), value)
    if value is FAILED or value is None:
        importer.findings.finish(importer.name, importer.opset)
        raise ModelError(f"{importer.name}: the output {info.name!r} is made by no node")
    return value


class _Fields:
    """The results of the program: tensors of the outputs, each with a name, and the names of tensors of strings."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer
        self.exprs: list[Expr] = []
        self.names: list[str] = []
        self.strings: list[str] = []

    def tree(self, name: str, value: Any) -> Tree:
        """The tree of an output. Its tensors become results."""
        if isinstance(value, Value):
            return self.leaf(name, value)
        if isinstance(value, MapValue):
            shared = len(value.items) == 1
            named = [(name if shared else f"{name}.{k}", v) for k, v in zip(value.keys, value.items, strict=False)]
            return MapOf(value.keys, [self.tree(n, v) for n, v in named])
        if isinstance(value, ListValue):
            return [self.tree(f"{name}.{k}", v) for k, v in enumerate(value.items)]
        if isinstance(value, Choice):
            raise self.unsupported(Unknown(value.question.unknown, elements_of(value.condition), shapes=True))
        if isinstance(value, DynamicOptional):
            return DynamicOptionalOf(self.tree(f"{name}.has", value.has), self.tree(name, value.held))
        if isinstance(value, Packed):
            return PackedOf(self.tree(name, value.elements), self.tree(f"{name}.shapes", value.shapes))
        return None

    def leaf(self, name: str, value: Value) -> Leaf:
        """A leaf for a tensor, which becomes a result."""
        try:
            self.exprs.append(value.expr)
        except Unknown as error:
            raise self.unsupported(error) from None
        self.names.append(name)
        if value.kind == "string":
            self.strings.append(name)
        return Leaf(len(self.exprs) - 1, value.kind)

    def unsupported(self, error: Unknown) -> Unsupported:
        """The error of a result that is possible only with known values."""
        return Unsupported(f"{self.importer.name}: {error}{self.importer.remedy(error)}", error.values, True)
