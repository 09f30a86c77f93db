"""The walk over an ONNX graph: converts nodes to relay, folds known values, and reports all unsupported parts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import Message
from tilewright.ir import PrimExpr
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Expr, Var
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.compatibility import collecting
from tilewright.relay.frontend.common.sizes import InputSizes
from tilewright.relay.frontend.common.unsupported import DAMAGE, finding_of
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.attributes import check_attributes
from tilewright.relay.frontend.onnx.choices import of_choices, taken, with_rank
from tilewright.relay.frontend.onnx.computed_axes import with_computed_axes
from tilewright.relay.frontend.onnx.declarations import Declarations
from tilewright.relay.frontend.onnx.files.external import WeightFolders
from tilewright.relay.frontend.onnx.files.reader import attributes_of, sparse_array, tensor_array
from tilewright.relay.frontend.onnx.files.schemas import wrong_axis, wrong_node
from tilewright.relay.frontend.onnx.files.weights import Weights
from tilewright.relay.frontend.onnx.fold import LIMIT, try_fold
from tilewright.relay.frontend.onnx.functions import (
    bound_nodes,
    default_attributes,
    is_function,
    result_kinds,
    schema_function,
)
from tilewright.relay.frontend.onnx.inputs import Inputs
from tilewright.relay.frontend.onnx.interface import Interface
from tilewright.relay.frontend.onnx.kinds import MOVING
from tilewright.relay.frontend.onnx.operators import node_name, plain_domain, supported_operators, unsupported_operators
from tilewright.relay.frontend.onnx.order import all_nodes, in_order, subgraphs
from tilewright.relay.frontend.onnx.unsupported import Findings, Unsupported, missing
from tilewright.relay.frontend.onnx.value import (
    AlreadyReported,
    Choice,
    Item,
    OnnxNode,
    SizesValue,
    Unknown,
    Value,
    as_value,
    as_values,
    evaluate,
    find_converter,
    typed_operators,
)
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support.errors import DiagnosticError, ModelError, OpError, OpNotImplemented, said

NEVER_FOLDED = {
    "If", "Loop", "Scan", "SequenceMap", "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli",
    "Multinomial", "Dropout", "DequantizeLinear",
}  # fmt: skip
"""Operators that are not folded: those with subgraphs, random numbers, and the one that marks quantised weights."""
DEPTH = 64
"""The maximum nesting depth of functions and subgraphs."""


class Importer:
    """One import. `scopes`: name -> tensor for the graph and the subgraphs being walked: values, None for omitted tensors,
    and `FAILED` for results of a reported node."""

    def __init__(
        self,
        name: str,
        folder: WeightFolders,
        opsets: dict[str, int],
        freeze: bool,
        values: Weights,
        functions: Iterable[Any] = (),
    ) -> None:
        self.name, self.folder, self.freeze, self.values = name, folder, freeze, values
        self.opsets = opsets
        self.functions = {(f.domain, f.name, f.overload): f for f in functions}
        self.transposed_products = False
        """Whether products of batches use a transposed second factor."""
        self.scopes: list[dict[str, Any]] = []
        self.findings = Findings()
        self.unknown: set[tuple[str, str]] = set()
        """Operators of the model that were reported once for all their nodes."""
        self.assumed: list[tuple[Value, str]] = []
        """Conditions that are decided in the current part of the walk, such as inside a branch."""
        self.params: dict[str, np.ndarray] = {}
        self.weights: list[Var] = []
        self.unit_extents: dict[str, Value] = {}
        """Name of a dynamic dimension -> whether it is 1."""
        self.declarations = Declarations(name)
        self.interface = Interface()
        self.inputs = Inputs(name, self.interface)

    @property
    def opset(self) -> int:
        """The opset of ai.onnx at the node that is being converted."""
        return self.opsets.get("", 1)

    def check_supported(self, graph: Message) -> None:
        """Reports every operator without a converter, also in subgraphs and in the model's functions. The walk skips its nodes, and
        finds the other unsupported parts."""
        bodies = [graph.node, *[f.node for f in self.functions.values()]]
        unknown = unsupported_operators(bodies, self.opsets, self.functions)
        for (domain, op_type), names in unknown.items():
            own = supported_operators(self.opsets.get(domain, 1), domain) if domain else []
            near = [*own, *supported_operators(self.opset)]
            self.findings.problems.append(missing(domain, op_type, names, self.opsets, near))
        self.unknown = set(unknown)

    def remedy(self, error: Exception) -> str:
        """Advice that would make the values known that an error needs; "" if the user already followed it."""
        if not isinstance(error, Unknown) or error.whole:
            return ""
        if error.values:
            names = ", ".join(map(repr, sorted(error.values)))
            return f". It depends on the elements of {names}: put a constant in place of that input"
        pins = self.inputs.dynamic() if error.shapes else []
        return f". Pin the dynamic dimensions of {', '.join(pins)}: shape={{name: [...]}}" if pins else ""

    def declared_rank(self, info: Message, value: Item) -> Any:
        """An output of a graph. For a choice, the side with the declared number of axes."""
        if not isinstance(value, Choice) or not info.type.tensor_type.HasField("shape"):
            return value
        node = OnnxNode("Identity", info.name, {}, self.opset, [], set(), self)
        return with_rank(node, value, len(info.type.tensor_type.shape.dim)) or value

    def initializers(self, graph: Message) -> None:
        """The weights of a graph, as arrays or (main graph, freeze_params=False) as parameters."""
        for s in graph.sparse_initializer:
            compatibility.SPARSE_WEIGHTS.seen(s.values.name)
            self.scopes[-1][s.values.name] = as_value(sparse_array(s, self.folder, self.name))
        for t in graph.initializer:
            values = self.values.get(t.name) if len(self.scopes) == 1 else None
            array = tensor_array(t, self.folder, self.name, values)
            value = as_value(array)
            value.name = t.name
            if value.kind:
                compatibility.CARRIERS.seen(f"{t.name} ({value.kind})")
            if not self.freeze and len(self.scopes) == 1 and array.dtype.kind in "fV" and not value.kind:
                var = Var(t.name, tensor_type(array.shape, array.dtype.name))
                self.weights.append(var)
                self.params[t.name] = array
                value = Value(var, None, t.name)
            self.scopes[-1][t.name] = value

    def find(self, name: str, reader: str) -> Any:
        """A tensor by name; FAILED if it is the result of a reported node. Raises ModelError for an unknown name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return self.taken(scope[name])
            if scope.get(ISOLATED):
                break
        raise ModelError(
            f"{self.name}: {reader} reads the tensor {name!r}, which no node before it makes."
            " The graph is incomplete, or a circle; onnx.checker.check_model shows where"
        )

    def nodes(self, nodes: Sequence[Message], outputs: Iterable[str]) -> None:
        """Converts nodes in the innermost scope."""
        used = {*outputs, *[i for node in all_nodes(nodes) for i in node.input]}
        for g in subgraphs(nodes):
            used |= {o.name for o in g.output}
        for proto in in_order(nodes):
            self.node(proto, used)

    @property
    def counts(self) -> bool:
        """Whether every run computes the current node. A branch that no run takes may have type errors."""
        return len(self.scopes) == 1

    def node(self, proto: Message, used: set[str]) -> None:
        """Converts one node."""
        scope = self.scopes[-1]
        domain, name = plain_domain(proto.domain), node_name(proto)
        title = f"{proto.op_type} {name!r}"
        inputs = [self.find(i, title) if i else None for i in proto.input]
        if any([v is FAILED for v in inputs]) or (domain, proto.op_type) in self.unknown:
            scope.update(dict.fromkeys(proto.output, FAILED))
            return
        version = self.opsets.get(domain, 1)
        self.check(proto, title, inputs)
        try:
            node = OnnxNode(
                proto.op_type,
                name,
                attributes_of(proto, self.folder, self.name),
                version,
                list(proto.output),
                used,
                self,
            )
            results = self.convert(node, proto, domain, inputs)
            for output, value in zip(proto.output, results, strict=False):
                if self.counts and output in used and isinstance(value, Value) and value.array is None:
                    # Errors of its type rule name this node.
                    infer_types(value.expr)
            if collecting():
                compatibility.note_version(proto.op_type, version, domain, node.attrs, name)
        except (OpError, DiagnosticError) as error:
            if isinstance(error, Unsupported):
                raise
            if not isinstance(error, NotImplementedError):
                raise DiagnosticError(f"{self.name}: {title}: {finding_of(error, name)}") from None
            self.findings.note(proto, error, self.remedy(error))
            scope.update(dict.fromkeys(proto.output, FAILED))
        except DAMAGE as error:
            why = wrong_axis(proto, inputs) or said(error)
            raise ModelError(
                f"{self.name}: {title} is not a valid node of opset {version} ({why})."
                f" Inputs: {', '.join(map(repr, proto.input))}; check with onnx.checker.check_model"
            ) from error
        else:
            self.keep(proto, title, results)

    def check(self, proto: Message, title: str, inputs: list[Item]) -> None:
        """Raises ModelError for a node that violates its operator's schema, or that has an output name twice."""
        domain = plain_domain(proto.domain)
        own = (proto.domain, proto.op_type, proto.overload) in self.functions
        if not own and (why := wrong_node(proto, self.opsets.get(domain, 1), domain, inputs if self.counts else [])):
            raise ModelError(f"{self.name}: {title}: {why}")
        made = [o for o in proto.output if o]
        if len({*made}) < len(made):
            raise ModelError(f"{self.name}: {title} names one of its results twice: {', '.join(map(repr, made))}")

    def keep(self, proto: Message, title: str, results: Iterable[Item]) -> None:
        """Stores the results of a node by name in the innermost scope."""
        scope = self.scopes[-1]
        for output, value in zip(proto.output, results, strict=False):
            if not output:
                continue
            if output in scope:
                raise ModelError(
                    f"{self.name}: {title} makes the tensor {output!r} again, which is there already."
                    " Every tensor has one origin; onnx.checker.check_model shows where the graph breaks this rule"
                )
            if isinstance(value, Value):
                if not value.name:
                    value.name = output
                if len(self.scopes) == 1:
                    self.declarations.compare(title, output, value)
            scope[output] = value

    def convert(self, node: OnnxNode, proto: Message, domain: str, inputs: list[Any]) -> list[Any]:
        """The results of a node as values."""
        if any([isinstance(v, Choice) for v in inputs]):
            return of_choices(node, inputs, lambda given: self.convert(node, proto, domain, given))
        function = self.functions.get((proto.domain, proto.op_type, proto.overload))
        if function is not None:
            compatibility.MODEL_FUNCTIONS.seen(function.name)
            return self.function(function, proto, inputs)
        check_attributes(node, domain)
        while inputs and inputs[-1] is None:
            inputs.pop()
        tensors = all([v is None or isinstance(v, Value) for v in inputs])
        strange = any([isinstance(v, Value) and v.kind for v in inputs])
        typed = (domain, node.op_type) in typed_operators
        if tensors and not domain and (not strange or not typed and node.op_type in MOVING):
            folded = try_fold(node, inputs)
            if folded is not None:
                if node.op_type in ("Shape", "Size"):
                    compatibility.SHAPE_NODES.seen(node.name)
                return self.with_kinds([self.sizes_value(folded)], node, domain, inputs)
        converter = find_converter(node.op_type, node.opset, domain)
        if converter is None:
            if is_function(node.op_type, node.opset, domain):
                compatibility.ONNX_FUNCTIONS.seen(f"{node.op_type} {node.name}")
                return self.function(schema_function(node, proto, inputs, self.opsets), proto, inputs)
            raise Unknown("its inputs must be known at import", shapes=True)
        if not typed and not tensors:
            raise OpNotImplemented("it is given a sequence, a map or an optional; it takes tensors")
        if strange and not typed and node.op_type not in MOVING:
            kind = next(v.kind for v in inputs if isinstance(v, Value) and v.kind)
            raise OpNotImplemented(
                f"it computes on {kind}, which only conversions take. Cast its inputs to float32 before it"
            )

        def make(given: list[Any]) -> list[Any]:
            return as_values(converter(node, *given))

        values = with_computed_axes(node, inputs, make) or make(inputs)
        small = (
            node.op_type not in NEVER_FOLDED
            and tensors
            and inputs
            and all([v is None or v.array is not None and v.is_number and v.array.size <= LIMIT for v in inputs])
        )
        if small:
            values = [evaluate(v) for v in values]
        return values if typed else self.with_kinds(values, node, domain, inputs)

    def sizes_value(self, folded: np.ndarray) -> Value:
        """A folded value. Sizes without symbols become numbers."""
        items = folded.reshape(-1).tolist() if folded.dtype == object else []
        if any([isinstance(v, PrimExpr) for v in items]):
            return SizesValue(folded, self.measured)
        if items and all([isinstance(v, (int, np.integer)) for v in items]):
            return Value(array=folded.astype(np.int64))
        return as_value(folded)

    def measured(self, sizes: np.ndarray) -> Expr:
        """Sizes, which may be symbols, as a tensor that is read from the shapes of the inputs at run time."""
        c = self.builder("sizes")
        parts = [c.size(d) for d in sizes.reshape(-1)]
        return c.reshape(c.call("stack", parts, axis=0), list(sizes.shape)).expr

    def builder(self, name: str) -> Builder:
        """The builder of a node's operators. Its operands may be sizes of inputs."""
        where = InputSizes()
        where.homes = self.inputs.variables
        return Builder(name, where)

    def with_kinds(self, values: list[Item], node: OnnxNode, domain: str, inputs: list[Item]) -> list[Item]:
        """Values with the kinds of the results by the schema."""
        if any([isinstance(v, Value) and v.kind for v in inputs]):
            kinds = result_kinds(node.op_type, node.opset, domain, inputs, len(values))
            for v, kind in zip(values, kinds, strict=True):
                if kind and isinstance(v, Value):
                    v.kind = kind
        return values

    def subgraph(self, graph: Message, bound: Mapping[str, Any]) -> list[Item]:
        """The outputs of a subgraph with its inputs bound to values. Raises OpNotImplemented if a part of it was reported."""
        self.enter(dict(bound))
        try:
            self.initializers(graph)
            self.nodes(graph.node, {o.name for o in graph.output})
            found = [self.declared_rank(o, self.find(o.name, "an output of the subgraph")) for o in graph.output]
        finally:
            self.scopes.pop()
        return self.made(found, "its subgraph")

    def attempt(self, graph: Message, bound: Mapping[str, Any]) -> list[Any]:
        """`subgraph`, with its problems raised instead of collected, so the caller can try another conversion."""
        return self.tried(lambda: self.subgraph(graph, bound))

    def tried(self, convert: Callable[[], list[Any]]) -> list[Any]:
        """The result of a conversion, with its problems raised instead of collected."""
        kept = self.findings
        found = self.findings = Findings(kept.shapes)
        try:
            return convert()
        except OpNotImplemented as error:
            if isinstance(error, AlreadyReported) and not found.problems:
                raise
            text = "; ".join(found.problems) or str(error)
            raise Unknown(text, frozenset(found.values), found.shapes, whole=bool(found.problems)) from None
        finally:
            self.findings = kept

    @contextmanager
    def assuming(self, condition: Value, side: str) -> Iterator[None]:
        """Context in which a condition is decided: its choices take their side "yes" or "no"."""
        self.assumed.append((condition, side))
        try:
            yield
        finally:
            self.assumed.pop()

    def taken(self, value: Item) -> Any:
        """A value with the choices of decided conditions resolved."""
        return taken(value, self.assumed)

    def function(self, function: Message, proto: Message, inputs: Sequence[Item]) -> list[Item]:
        """The results of a function for values, by a walk over its body in a separate scope."""
        given = [*inputs, *[None] * (len(function.input) - len(inputs))]
        outer, self.opsets = (
            self.opsets,
            {**self.opsets, **{plain_domain(o.domain): o.version for o in function.opset_import}},
        )
        self.enter({**dict(zip(function.input, given, strict=False)), ISOLATED: True})
        try:
            nodes = bound_nodes(function, default_attributes(proto, function))
            wanted = [n for n, o in zip(function.output, proto.output, strict=False) if o]
            self.nodes(nodes, wanted)
            found = [
                self.find(n, f"the function {function.name}") if n in wanted else None
                for n in function.output[: len(proto.output)]
            ]
        finally:
            self.scopes.pop()
            self.opsets = outer
        # A value may also be an input: only values of this scope are renamed.
        return self.made(found, f"the function {function.name}")

    def enter(self, scope: dict[str, Any]) -> None:
        """Begins a scope."""
        if len(self.scopes) >= DEPTH:
            raise OpNotImplemented(f"functions and subgraphs are nested more than {DEPTH} deep")
        self.scopes.append(scope)

    @staticmethod
    def made(found: list[Item], what: str) -> list[Item]:
        """The results. Raises AlreadyReported if a node that makes one was reported."""
        if any([v is FAILED for v in found]):
            raise AlreadyReported(f"a node inside {what} is not supported (listed above)")
        return found


class _Failed:
    pass


FAILED: Any = _Failed()
ISOLATED = "\0isolated"
"""Marks the scope of a function, which cannot see outer scopes. No tensor has this name."""
