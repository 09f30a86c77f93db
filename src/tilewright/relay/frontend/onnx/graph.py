"""The walk over an ONNX graph: node by node to relay, what is known folded on the way, all that is not supported reported at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.expr import Function, Tuple, Var
from tilewright.relay.frontend.common.value import as_values, evaluate, near_text, problems_text, use_text
from tilewright.relay.frontend.onnx import ops_control, ops_math, ops_nn, ops_resize, ops_tensor  # noqa: F401 (register converters)
from tilewright.relay.frontend.onnx.fold import LIMIT, folders, try_fold
from tilewright.relay.frontend.onnx.reader import ModelError, check_opset, read_model, tensor_array
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, converters, find_converter
from tilewright.relay.frontend.onnx.weights import Weights
from tilewright.relay.op.relations import shape_text, tensor_type
from tilewright.relay.transform.infer_type import infer_module
from tilewright.support.errors import DiagnosticError, OpError, OpNotImplemented
from tilewright.tir import Any as AnyDim
from tilewright.tir import PrimExpr, SizeVar

ADVICE = {
    "com.microsoft": "ONNX Runtime's own operators appear after its optimizer: give the model as it was before that",
    "ai.onnx.ml": "classical machine-learning operators are outside tensor compilation: split the model before them",
}


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, Any]]:
    """A module with `main`, and its parameters, from an ONNX model.

    model: onnx.ModelProto, path or bytes. shape: extents to pin, by input name; -1 or None keeps an axis symbolic.
    dtype: for inputs that state none. opset: overrides the model's own. freeze_params: weights become constants of `main`;
    otherwise they become its trailing parameters, and the dictionary holds their values.

    Raises ModelError (unreadable model, wrong shape names) and OpNotImplemented, which lists all that is not supported.
    """
    proto, name, folder, weights = read_model(model)
    version = opset if opset is not None else check_opset(proto, name)
    try:
        if proto.functions:
            from onnx.inliner import inline_local_functions

            proto = inline_local_functions(proto)
        return Importer(name, folder, version, freeze_params, weights).run(proto.graph, dict(shape or {}), dtype)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError) as error:
        raise ModelError(
            f"{name}: the model is malformed ({type(error).__name__}: {error}); onnx.checker.check_model says where."
            " Copy or export it again"
        ) from error


def supported_operators(opset: int) -> list[str]:
    """Names of the operators that are imported at an opset."""
    return sorted({*[n for n in converters if find_converter(n, opset)], *folders, "If", "Loop"})


class Importer:
    """One import. `scopes` are the tensors by name of the graph and of the subgraphs being walked."""

    def __init__(self, name: str, folder: Path, opset: int, freeze: bool, values: Weights) -> None:
        self.name, self.folder, self.opset, self.freeze, self.values = name, folder, opset, freeze, values
        self.scopes: list[dict[str, Value | None]] = []
        self.problems: list[str] = []
        self.params: dict[str, np.ndarray] = {}
        self.weights: list[Var] = []
        self.symbols: dict[str, SizeVar] = {}

    def run(
        self, graph: Any, shapes: dict[str, Sequence[Any]], dtype: str | Mapping[str, str]
    ) -> tuple[IRModule, dict[str, Any]]:
        """Import the main graph."""
        self.check_supported(graph)
        scope: dict[str, Value | None] = {}
        self.scopes.append(scope)
        self.initializers(graph)
        inputs = self.inputs(graph, shapes, dtype)
        self.nodes(graph, {o.name for o in graph.output})
        self.finish()
        outputs = [self.find(o.name, "the model's outputs") for o in graph.output]
        self.finish()
        fields = [v.expr for v in outputs if v is not None]
        if not fields:
            raise ModelError(f"{self.name}: the graph has no outputs")
        body = fields[0] if len(fields) == 1 else Tuple(tuple(fields))
        main = Function(
            [*inputs, *self.weights], body, attrs={"output_tensor_names": tuple([o.name for o in graph.output])}
        )
        try:
            return infer_module(IRModule.from_expr(main)), dict(self.params)
        except DiagnosticError as error:
            raise DiagnosticError(f"{self.name}: {error}") from None

    def check_supported(self, graph: Any) -> None:
        """List every operator, in subgraphs too, that no converter takes."""
        missing: dict[tuple[str, str], list[str]] = {}
        for node in _all_nodes(graph):
            known = node.domain in ("", "ai.onnx") and (
                node.op_type in ("If", "Loop")
                or node.op_type in folders
                or find_converter(node.op_type, self.opset) is not None
            )
            if not known:
                missing.setdefault((node.domain, node.op_type), []).append(node_name(node))
        for (domain, op_type), names in sorted(missing.items()):
            self.problems.append(self.missing_text(domain, op_type, names))
        self.finish()

    def missing_text(self, domain: str, op_type: str, names: list[str]) -> str:
        """One operator that is not supported: where it is used, and the nearest that is."""
        title = f"{domain}::{op_type}" if domain else op_type
        text = use_text(title, names)
        if not domain and op_type in converters:
            first = min(since for since, _ in converters[op_type])
            return f"{text}; supported from opset {first}, the model uses {self.opset}"
        text += near_text(op_type.removeprefix("Fused"), supported_operators(self.opset))
        return text + (f"; {ADVICE[domain]}" if domain in ADVICE else "")

    def finish(self) -> None:
        """Raise what was found so far."""
        if self.problems:
            raise OpNotImplemented(problems_text(f"{self.name} (opset {self.opset})", self.problems))

    def initializers(self, graph: Any) -> None:
        """The weights of a graph, as arrays or (main graph, freeze_params=False) as parameters."""
        if graph.sparse_initializer:
            self.problems.append("sparse initializers: store the weights dense")
            self.finish()
        for t in graph.initializer:
            values = self.values.get(t.name) if len(self.scopes) == 1 else None
            array = tensor_array(t, self.folder, self.name, values)
            value = Value(array=array, name=t.name)
            if not self.freeze and len(self.scopes) == 1 and array.dtype.kind in "fV":
                var = Var(t.name, tensor_type(array.shape, array.dtype.name))
                self.weights.append(var)
                self.params[t.name] = array
                value = Value(var, None, t.name)
            self.scopes[-1][t.name] = value

    def inputs(self, graph: Any, shapes: dict[str, Sequence[Any]], dtype: str | Mapping[str, str]) -> list[Var]:
        """Variables of the graph's inputs that are not weights, with pinned shapes."""
        real = [i for i in graph.input if i.name not in self.scopes[0]]
        names = [i.name for i in real]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise ModelError(
                f"{self.name}: two inputs have the name {twice!r}. Rename one; onnx.checker.check_model shows more"
            )
        unknown = [n for n in shapes if n not in names]
        if unknown:
            near = difflib.get_close_matches(unknown[0], names, n=1)
            raise ModelError(
                f"{self.name}: shape names {', '.join(repr(n) for n in unknown)}, but the model's inputs are"
                f" {', '.join(f'{i.name!r} {shape_text(_declared(i))}' for i in real) or 'none'}"
                + (f". Did you mean {near[0]!r}?" if near else "")
            )
        result = []
        for i in real:
            from onnx import helper

            tensor = i.type.tensor_type
            if not i.type.HasField("tensor_type"):
                raise OpNotImplemented(
                    f"{self.name}: the input {i.name!r} is no tensor; sequences, maps and optionals are not supported"
                )
            element = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else ""
            if not element:
                element = dtype if isinstance(dtype, str) else dtype.get(i.name, "float32")
            var = Var(i.name, tensor_type(self.pinned(i, shapes.get(i.name)), element))
            self.scopes[0][i.name] = Value(var, None, i.name)
            result.append(var)
        return result

    def pinned(self, info: Any, given: Sequence[Any] | None) -> list[Any]:
        """An input's extents: those given, checked against those declared; symbols elsewhere."""
        declared = _declared(info)
        if given is None:
            if not info.type.tensor_type.HasField("shape"):
                raise ModelError(
                    f"{self.name}: the input {info.name!r} has no declared shape. Pin it: shape={{{info.name!r}: [...]}}"
                )
            return [d if isinstance(d, int) else self.symbol(d, info.name, k) for k, d in enumerate(declared)]
        given = list(given)
        if info.type.tensor_type.HasField("shape") and len(given) != len(declared):
            raise ModelError(
                f"{self.name}: the input {info.name!r} has {len(declared)} axes {shape_text(declared)}, but shape gives it"
                f" {len(given)}: {shape_text(given)}"
            )
        result: list[Any] = []
        for k, d in enumerate(given):
            known = declared[k] if k < len(declared) else None
            if isinstance(d, (int, np.integer)) and d >= 0:
                if isinstance(known, int) and known != d:
                    raise ModelError(
                        f"{self.name}: axis {k} of the input {info.name!r} is declared {known}, but shape gives it {d}."
                        f" The declared shape is {shape_text(declared)}"
                    )
                result.append(int(d))
            elif isinstance(d, PrimExpr) and not isinstance(d, AnyDim):
                result.append(d)
            elif isinstance(d, (int, np.integer)) and d < -1:
                raise ModelError(
                    f"{self.name}: axis {k} of the input {info.name!r} cannot have the extent {d};"
                    " give a positive number, or -1 to keep it symbolic"
                )
            else:
                result.append(known if isinstance(known, int) else self.symbol(known or "", info.name, k))
        return result

    def symbol(self, param: str, name: str, axis: int) -> SizeVar:
        """The symbol of a named dimension (one for all its uses), or of an input's axis."""
        key = re.sub(r"\W", "_", param) if param and param != "?" else re.sub(r"\W", "_", f"{name}_{axis}")
        return self.symbols.setdefault(key, SizeVar(key, "int64"))

    def find(self, name: str, reader: str) -> Value | None:
        """A tensor by name; None when it comes from a node that was reported. Raises ModelError for an unknown name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise ModelError(
            f"{self.name}: {reader} reads the tensor {name!r}, which no earlier node makes."
            " The graph is incomplete or out of order; onnx.checker.check_model shows where"
        )

    def nodes(self, graph: Any, outputs: Iterable[str]) -> None:
        """Convert the nodes of a graph into the innermost scope."""
        used = {*outputs, *[i for node in _all_nodes(graph) for i in node.input]}
        for g in _subgraphs(graph):
            used |= {o.name for o in g.output}
        for proto in graph.node:
            self.node(proto, used)

    def node(self, proto: Any, used: set[str]) -> None:
        """Convert one node."""
        scope = self.scopes[-1]
        title = node_name(proto)
        inputs = [self.find(i, f"{proto.op_type} {title!r}") if i else None for i in proto.input]
        if any(v is None and i for v, i in zip(inputs, proto.input, strict=True)):
            scope.update(dict.fromkeys(proto.output, None))
            return
        try:
            node = OnnxNode(proto.op_type, title, self.attributes(proto), self.opset, list(proto.output), used, self)
            results = self.convert(node, inputs)
        except (OpError, DiagnosticError) as error:
            if isinstance(error, NotImplementedError):
                self.problems.append(f"{proto.op_type} {title!r}: {error}")
                scope.update(dict.fromkeys(proto.output, None))
                return
            raise DiagnosticError(f"{self.name}: {proto.op_type} {title!r}: {error}") from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
            raise ModelError(
                f"{self.name}: {proto.op_type} {title!r} is not a valid node of opset {self.opset}"
                f" ({type(error).__name__}: {error}). Inputs: {', '.join(map(repr, proto.input))}; check with onnx.checker.check_model"
            ) from error
        for output, value in zip(proto.output, results, strict=False):
            if output in scope:
                raise ModelError(
                    f"{self.name}: {proto.op_type} {title!r} makes the tensor {output!r} again, which is there already."
                    " Every tensor has one origin; onnx.checker.check_model shows where the graph breaks this rule"
                )
            if output:
                value.name = value.name or output
                scope[output] = value

    def convert(self, node: OnnxNode, inputs: list[Value | None]) -> list[Value]:
        """The results of a node as values."""
        while inputs and inputs[-1] is None:
            inputs.pop()
        folded = try_fold(node, inputs)
        if folded is not None:
            return [Value(array=folded)]
        converter = find_converter(node.op_type, self.opset)
        if converter is None:
            raise OpNotImplemented(
                "its inputs must be known at import. Pin the model's input shapes: shape={name: [...]}"
            )
        values = as_values(converter(node, *inputs))
        small = (
            node.op_type not in ("If", "Loop")
            and inputs
            and all([v is None or v.array is not None and v.is_number and v.array.size <= LIMIT for v in inputs])
        )
        return [evaluate(v) for v in values] if small else values

    def attributes(self, proto: Any) -> dict[str, Any]:
        """Attributes as Python values; tensors as arrays, graphs as they are."""
        from onnx import AttributeProto, helper

        result: dict[str, Any] = {}
        for a in proto.attribute:
            if a.type == AttributeProto.TENSOR:
                result[a.name] = tensor_array(a.t, self.folder, self.name)
            else:
                value = helper.get_attribute_value(a)
                result[a.name] = value.decode() if isinstance(value, bytes) else value
        return result

    def subgraph(self, graph: Any, bound: Mapping[str, Value]) -> list[Value]:
        """The outputs of a subgraph whose inputs are bound to values. Raises OpNotImplemented when a part of it was reported."""
        self.scopes.append(dict(bound))
        try:
            self.initializers(graph)
            self.nodes(graph, {o.name for o in graph.output})
            found = [self.find(o.name, "the subgraph's outputs") for o in graph.output]
        finally:
            self.scopes.pop()
        if any(v is None for v in found):
            raise OpNotImplemented("a node inside its subgraph is not supported (listed above)")
        return [v for v in found if v is not None]


def node_name(proto: Any) -> str:
    """The node's name, or that of its first output."""
    return str(proto.name or next((o for o in proto.output if o), proto.op_type))


def _declared(info: Any) -> list[Any]:
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 and not d.dim_param else d.dim_param
        for d in info.type.tensor_type.shape.dim
    ]


def _subgraphs(graph: Any) -> Iterable[Any]:
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                yield a.g
                yield from _subgraphs(a.g)


def _all_nodes(graph: Any) -> Iterable[Any]:
    yield from graph.node
    for g in _subgraphs(graph):
        yield from g.node
