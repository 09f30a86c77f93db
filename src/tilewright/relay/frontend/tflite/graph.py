"""The walk over a TFLite model: converts operators to relay, folds known values, and reports all unsupported parts at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.flatbuffer import Record
from tilewright.formats.tflite_schema import OPTIONS
from tilewright.ir import IRModule, PrimExpr
from tilewright.relay.cards.relations import Dim, shape_text, tensor_type
from tilewright.relay.expr import Expr, Var
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.module import module_of, string_attrs
from tilewright.relay.frontend.common.names import input_variable, unused_name
from tilewright.relay.frontend.common.unsupported import DAMAGE, finding_of
from tilewright.relay.frontend.common.value import are_numbers, evaluate, near_text, problems_text, use_text
from tilewright.relay.frontend.tflite.fold import folded
from tilewright.relay.frontend.tflite.node import Info, Node, Pair, Quant, Resource, Value, as_values, converters
from tilewright.relay.frontend.tflite.reader import DTYPES, TFLiteModel, dtype_of, shape_of, type_name
from tilewright.support.errors import DiagnosticError, ModelError, OpError, OpNotImplemented, TVMError, said
from tilewright.tir import Any as AnyDim
from tilewright.tir import SizeVar

LIMIT = 1 << 16
"""The largest number of elements that an operator folded at import may read. FoldConstant folds the rest."""
DEPTH = 32
"""The maximum nesting depth of subgraph calls."""
SUBGRAPHS = ("then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index", "init_subgraph_index", "subgraph",
    "decomposition_subgraph_index", "comparator_subgraph_index", "update_computation_subgraph_index")  # fmt: skip
ADVICE = {
    "Flex": "TensorFlow's own operators (SELECT_TF_OPS) run in TensorFlow only: convert with TFLITE_BUILTINS, or import the SavedModel",
}
Custom = Mapping[str, Callable[[Any], Any]]


class FailedResults:
    """Placeholders for the results of an operator with a reported error."""


FAILED: Any = FailedResults()


class Importer:
    """One import: parameters and inputs of main, variables, and the unsupported parts found so far."""

    def __init__(self, model: TFLiteModel, custom: Custom | None = None, carried: bool = False) -> None:
        self.model, self.custom, self.carried = model, dict(custom or {}), carried
        self.params: dict[str, np.ndarray] = {}
        self.weights: list[Var] = []
        self.inputs: list[Var] = []
        self.symbols: dict[str, SizeVar] = {}
        self.problems: list[str] = []
        self.variables: dict[str, Value] = {}
        """The current values of the model's variables during the walk."""
        self.initial: dict[str, np.ndarray] = {}
        """The initial values of carried variables."""
        self.states: list[str] = []
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.depth = 0
        self.scope: dict[int, Any] = {}
        """The tensors of the operator being converted, for users' converters."""
        self._weights: dict[Any, Var] = {}
        self._state_names: dict[int, str] = {}
        self._operators_left = 64 * sum([len(g.operators) for g in model.root.subgraphs]) + 1 << 12

    # ---- main

    def run(
        self,
        subgraph: int,
        inputs: Sequence[tuple[str, int]],
        outputs: Sequence[tuple[str, int]],
        shapes: Mapping[str, Any],
        dtypes: Mapping[str, str],
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports a subgraph as main; inputs and outputs are (name, number of the tensor)."""
        self.check_supported(subgraph)
        graph = self.model.root.subgraphs[subgraph]
        scope: dict[int, Any] = {}
        for name, index in inputs:
            scope[index] = self.input(name, self.tensor(graph, index), shapes, dtypes)
        self.adopt_variables(subgraph)
        self.nodes(subgraph, scope)
        self.finish()
        fields: list[Expr] = []
        for name, index in outputs:
            value = self.find(graph, scope, index, "the model's outputs")
            if value is FAILED:
                self.finish()
            if isinstance(value, Pair):
                raise OpNotImplemented(f"{self.model.name}: the output {name!r} is complex; give its REAL and IMAG")
            if isinstance(value, Resource):
                raise OpNotImplemented(
                    f"{self.model.name}: the output {name!r} is a resource; give what READ_VARIABLE reads of it"
                )
            fields.append(self.output(name, value))
        names = [n for n, _ in outputs]
        for key in self.states:
            fields.append(self.output(key, self.variables[key]))
            names.append(key)
        if not fields:
            raise ModelError(f"{self.model.name}: the model has no outputs")
        given, made = (
            [n for n, i in side if type_name(self.tensor(graph, i)) == "STRING"] for side in (inputs, outputs)
        )
        attrs = string_attrs(given, made)
        return module_of(self.model.name, [*self.inputs, *self.weights], fields, names, attrs), dict(self.params)

    def output(self, name: str, value: Value) -> Expr:
        """A result of main."""
        try:
            return value.expr
        except OpNotImplemented as error:
            raise OpNotImplemented(f"{self.model.name}: the output {name!r}: {error}") from None

    def input(self, name: str, tensor: Record, shapes: Mapping[str, Any], dtypes: Mapping[str, str]) -> Value:
        """An input of main."""
        kind = type_name(tensor)
        if (kind not in DTYPES and kind != "STRING") or kind.startswith("COMPLEX"):
            raise OpNotImplemented(
                f"{self.model.name}: the input {name!r} is of type {kind}; tensors of real numbers and of strings are supported"
            )
        dtype = dtype_of(kind)
        given = dtypes.get(name, dtype)
        if given != dtype:
            raise ModelError(
                f"{self.model.name}: dtype_dict gives the input {name!r} the type {given}, but the model takes {dtype}"
            )
        declared: list[Any] = [
            int(d) for d in (tensor.shape_signature if len(tensor.shape_signature) else tensor.shape)
        ]
        wanted = list(shapes.get(name, declared))
        if len(wanted) != len(declared) and (len(declared) or tensor.has_rank):
            raise ModelError(
                f"{self.model.name}: the input {name!r} has {len(declared)} axes {shape_text(declared)}, but shape_dict gives it"
                f" {len(wanted)}: {shape_text(wanted)}"
            )
        var = input_variable(self.model.name, name, [self.extent(name, k, d) for k, d in enumerate(wanted)], dtype)
        self.inputs.append(var)
        return Value(var, None, name, self.quant(tensor))

    def extent(self, name: str, axis: int, d: Any) -> Dim:
        """One extent of an input. -1, None and names mean a dynamic dimension."""
        if isinstance(d, PrimExpr) and not isinstance(d, AnyDim):
            return d
        if isinstance(d, (int, np.integer)) and d >= 0:
            return int(d)
        if isinstance(d, (int, np.integer)) and d < -1:
            raise ModelError(
                f"{self.model.name}: axis {axis} of the input {name!r} cannot have the extent {d};"
                " give a positive number, or -1 to keep it symbolic"
            )
        key = d if isinstance(d, str) else re.sub(r"\W", "_", f"{name}_{axis}")
        return self.symbols.setdefault(key, SizeVar(key, "int64"))

    # ---- unsupported parts

    def check_supported(self, subgraph: int) -> None:
        """Reports every operator without a converter, in all subgraphs that main reaches."""
        missing: dict[tuple[str, str], list[str]] = {}
        for title, name, custom in self.reached(subgraph):
            key = custom if name == "CUSTOM" else name
            if key not in converters and key not in self.custom:
                missing.setdefault((name, custom), []).append(title)
        names = sorted(converters)
        for (name, custom), places in sorted(missing.items()):
            text = f"custom operator {custom}" if name == "CUSTOM" else custom if name == "UNKNOWN" else name
            line = use_text(text, places, "operator")
            advice = next((v for k, v in ADVICE.items() if custom.startswith(k)), "")
            if name == "CUSTOM":
                advice = advice or "give its converter: op_converter, see docs/tflite.md"
            self.problems.append(line + (f"; {advice}" if advice else near_text(name, names)))
        self.finish()

    def reached(self, subgraph: int) -> Iterator[tuple[str, str, str]]:
        """(title, operator, custom operator) of all operators in a subgraph and the subgraphs that it reaches."""
        todo, seen = [subgraph], {subgraph}
        while todo:
            number = todo.pop(0)
            graph = self.model.item(self.model.root.subgraphs, number, "subgraph")
            for k, op in enumerate(graph.operators):
                yield self.title(graph, op, k), *self.model.operator_name(op)
                for inner in subgraphs_of(op):
                    if inner not in seen:
                        seen.add(inner)
                        todo.append(inner)

    def finish(self) -> None:
        """Raises the errors that were collected so far."""
        if self.problems:
            raise OpNotImplemented(problems_text(self.model.name, self.problems))

    def title(self, graph: Record, op: Record, number: int) -> str:
        """The name of an operator in messages: that of its first result."""
        for index in op.outputs.tolist():
            if 0 <= index < len(graph.tensors) and graph.tensors[index].name:
                return str(graph.tensors[index].name)
        return f"operator {number}"

    # ---- tensors

    def tensor(self, graph: Record, index: int) -> Record:
        """A tensor of a subgraph by number."""
        found: Record = self.model.item(graph.tensors, index, "tensor")
        return found

    def quant(self, tensor: Record) -> Quant | None:
        """A tensor's quantisation."""
        q = tensor.quantization
        if q is None or not len(q.scale):
            return None
        zero = q.zero_point if len(q.zero_point) else np.zeros(len(q.scale), np.int64)
        if len(zero) not in (1, len(q.scale)):
            raise ModelError(
                f"{self.model.name}: the tensor {tensor.name!r} has {len(q.scale)} scales, but {len(zero)} zero points"
            )
        dtype = dtype_of(type_name(tensor))
        ends = np.iinfo(dtype if "int" in dtype else np.int32)
        outside = zero[(zero < ends.min) | (zero > ends.max)]
        if len(outside):
            raise ModelError(
                f"{self.model.name}: the tensor {tensor.name!r} of {dtype} has the zero point {int(outside[0])}, which is none of its"
                " numbers. The file is damaged; copy or convert it again"
            )
        zero = np.broadcast_to(zero, len(q.scale)).astype(np.int32)
        return Quant(q.scale.astype(np.float32), zero, int(q.quantized_dimension))

    def info(self, tensor: Record) -> Info:
        """The description of a tensor in the model."""
        kind = type_name(tensor)
        return Info(tensor.name or "", shape_of(tensor), kind, dtype_of(kind), self.quant(tensor))

    def constant(self, graph: Record, index: int) -> Value | None:
        """The value of a tensor with elements in the model; None for others."""
        tensor = self.tensor(graph, index)
        array = self.model.array(tensor)
        if array is None:
            return None
        quant = self.quant(tensor)
        weight = array.ndim > 0 and array.size > 1 and (array.dtype.kind in "fV" or quant is not None)
        name = tensor.name or f"tensor_{index}"
        return Value(array=array, name=name, quant=quant, home=self.parameter if weight else None)

    def parameter(self, value: Value) -> Expr:
        """The parameter of main for a weight. Weights that read the same memory in the same way share one parameter."""
        array = value.array
        assert array is not None
        key = (array.ctypes.data, array.shape, array.strides, array.dtype.str)
        if key not in self._weights:
            name = unused_name(value.name, self.params, {v.name_hint for v in self.inputs})
            self.params[name] = array
            self._weights[key] = var = Var(name, tensor_type(array.shape, array.dtype.name))
            self.weights.append(var)
        return self._weights[key]

    def find(self, graph: Record, scope: dict[int, Any], index: int, reader: str) -> Any:
        """A tensor's value. Raises ModelError if no operator or buffer has it."""
        if index in scope:
            return scope[index]
        tensor = self.tensor(graph, index)
        value: Any = self.constant(graph, index)
        if value is None and tensor.is_variable:
            # Not stored in the scope, since operators change it.
            return self.state(tensor, index)
        if value is None and 0 in shape_of(tensor):
            value = Value(array=np.zeros(shape_of(tensor), dtype_of(type_name(tensor))), name=tensor.name or "")
        if value is None:
            raise ModelError(
                f"{self.model.name}: {reader} reads the tensor {tensor.name!r} ({index}), which no earlier operator makes and no buffer"
                " holds. The model is damaged or its operators are out of order"
            )
        scope[index] = value
        return value

    # ---- variables

    def state(self, tensor: Record, index: int) -> Value:
        """The current value of a variable tensor (of LSTM, RNN, SVDF)."""
        key = self._state_names.get(id(tensor), "")
        if not key:
            name = tensor.name or f"tensor_{index}"
            taken = {v.name_hint for v in self.inputs}
            key = self._state_names[id(tensor)] = unused_name(name, self.variables, self.params, taken)
            info = self.info(tensor)
            small(info.shape, "its state")
            fill = info.quant.offset if info.quant is not None and info.quant.single else 0
            self.variable(key, np.full(info.shape, fill, info.dtype), info.quant)
        return self.variables[key]

    def variable(self, key: str, value: np.ndarray, quant: Quant | None) -> None:
        """Adds a variable with this initial value. With `carried` it is an input and an output of main."""
        if not self.carried:
            self.variables[key] = Value(array=value, name=key, quant=quant)
            return
        var = Var(key, tensor_type(value.shape, value.dtype.name))
        self.inputs.append(var)
        self.states.append(key)
        self.initial[key] = value
        self.variables[key] = Value(var, None, key, quant)

    def adopt_variables(self, subgraph: int) -> None:
        """Runs the initialisers of the main graph. With `carried`, variables that main changes become inputs."""
        graph = self.model.root.subgraphs[subgraph]
        for op in graph.operators:
            if self.model.operator_name(op)[0] == "CALL_ONCE":
                for inner in subgraphs_of(op):
                    self.call(inner, [])
        changed = {
            key
            for op in graph.operators
            if self.model.operator_name(op)[0] == "ASSIGN_VARIABLE" and len(op.inputs)
            for key in [self.handle(graph, int(op.inputs[0]))]
        }
        for key, value in list(self.variables.items()):
            if self.carried and key in changed and value.is_number and value.array is not None:
                self.variable(key, value.array, value.quant)

    def handle(self, graph: Record, index: int) -> str:
        """The variable of a handle's tensor, from the operator that makes the handle."""
        for op in graph.operators:
            if index in op.outputs.tolist() and op.builtin_options is not None:
                return resource_key(op.builtin_options)
        return ""

    # ---- operators

    def nodes(self, subgraph: int, scope: dict[int, Any]) -> None:
        """Converts the operators of a subgraph."""
        graph = self.model.root.subgraphs[subgraph]
        for k, op in enumerate(graph.operators):
            self._operators_left -= 1
            if self._operators_left < 0:
                raise ModelError(f"{self.model.name}: its subgraphs call each other without end")
            self.node(graph, scope, op, k)

    def node(self, graph: Record, scope: dict[int, Any], op: Record, number: int) -> None:
        """Converts one operator."""
        name, custom = self.model.operator_name(op)
        title = self.title(graph, op, number)
        key = custom if name == "CUSTOM" else name
        what = f"{key} {title!r}"
        inputs = [None if i < 0 else self.find(graph, scope, i, what) for i in op.inputs.tolist()]
        outputs = op.outputs.tolist()
        if any([v is FAILED for v in inputs]):
            scope.update(dict.fromkeys(outputs, FAILED))
            return
        states = [i for i in op.inputs.tolist() if i >= 0 and self.tensor(graph, i).is_variable]
        try:
            if len({*states}) < len(states):
                raise OpNotImplemented("two of its inputs are one variable")
            if name not in WITH_TEXTS and any(
                [i >= 0 and type_name(self.tensor(graph, i)) == "STRING" for i in op.inputs.tolist()]
            ):
                raise OpNotImplemented("its input is a tensor of strings, but it takes numbers")
            infos = [self.info(self.tensor(graph, i)) for i in outputs]
            options = op.builtin_options or op.builtin_options2
            if options is not None and options.table != OPTIONS.get(name, options.table):
                raise TVMError(f"its options are {options.table}, where {OPTIONS[name]} belong. The file is damaged")
            between = [self.info(self.tensor(graph, i)) for i in op.intermediates.tolist()]
            node = Node(key, title, op, options, infos, self, between)
            self.scope = scope
            results = self.convert(node, inputs)
            if len(results) < len(outputs):
                raise OpNotImplemented(f"it makes {len(outputs)} tensors, of which {len(results)} are supported")
            results = [self.named(node, v, i) for v, i in zip(results, infos, strict=False)]
        except ModelError:
            raise
        except (OpError, DiagnosticError) as error:
            if isinstance(error, NotImplementedError):
                self.problems.append(f"{what}: {finding_of(error, title)}")
                scope.update(dict.fromkeys(outputs, FAILED))
                return
            raise DiagnosticError(f"{self.model.name}: {what}: {finding_of(error, title)}") from None
        except TVMError as error:
            raise DiagnosticError(f"{self.model.name}: {what}: {error}") from None
        except (*DAMAGE, RecursionError) as error:
            raise ModelError(
                f"{self.model.name}: {what} (operator {number}) is not as its schema says ({said(error)})."
                " The file is damaged; copy or convert it again"
            ) from error
        scope.update(zip(outputs, results, strict=False))

    def convert(self, node: Node, inputs: list[Any]) -> list[Any]:
        """The results of an operator."""
        if node.name in self.custom:
            return as_values(self.custom[node.name](node.record))
        if node.name not in OF_PAIRS and any([isinstance(v, Pair) for v in inputs]):
            return self.convert_parts(node, inputs)
        known = folded(node, inputs)
        if known is not None:
            return list(known)
        tensors = [v for v in inputs if v is not None]
        few = bool(tensors) and all([isinstance(v, Value) and _small(v) for v in tensors])
        if few:
            inputs = [None if v is None else Value(array=v.array, name=v.name, quant=v.quant) for v in inputs]
        results = as_values(converters[node.name](node, *inputs))
        if few and node.name not in RANDOM and all([isinstance(r, Value) for r in results]):
            made = [evaluate(r) if r.array is None and _worth(r) else r for r in results]
            return as_values(made)
        return results

    def convert_parts(self, node: Node, inputs: list[Any]) -> list[Any]:
        """The results of an operator on complex tensors. An operator that only moves elements is applied to each part. Conversions to
        real numbers, and operators that read the shape, use the real part."""
        if node.name not in MOVING and node.name not in OF_REAL_PART:
            raise OpNotImplemented(
                "its input is complex; supported are operators that move elements, REAL, IMAG, COMPLEX_ABS"
            )
        of_pair = [isinstance(v, Pair) for v in inputs]
        real = self.convert(node, [v.real if p else v for v, p in zip(inputs, of_pair, strict=True)])
        if node.name in OF_REAL_PART:
            return real
        imag = self.convert(node, [v.imag if p else v for v, p in zip(inputs, of_pair, strict=True)])
        return [Pair(a, b) for a, b in zip(real, imag, strict=True)]

    def named(self, node: Node, value: Any, info: Info) -> Any:
        """A result with the declared dtype, name and quantisation."""
        if isinstance(value, Value):
            if value.dtype != info.dtype:
                value = self.declared(node, value, info)
            if value.name or value.quant is not None or value.home is not None:
                value = Value(value._expr, value.array, value.name, value.quant, value.home)
            value.quant = info.quant
        if not value.name:
            value.name = info.name
        return value

    def declared(self, node: Node, value: Value, info: Info) -> Value:
        """A result cast to its declared type. Only users' converters and folded sizes may have another one. Raises
        ModelError for other operators."""
        sizes = value.array is not None and value.array.dtype in (object, np.int64) and info.dtype.startswith("int")
        if node.name not in self.custom and not sizes:
            raise ModelError(
                f"{self.model.name}: {node.name} {node.title!r} makes the tensor {info.name!r} of {value.dtype}, but the model declares it"
                f" as {info.dtype}. The file is damaged; copy or convert it again"
            )
        return node.cast(value, info.dtype) if value.array is None or value.is_number else value

    def call(self, subgraph: int, arguments: Sequence[Any]) -> list[Any]:
        """The results of a subgraph. Raises ModelError, and OpNotImplemented for unsupported parts."""
        graph = self.model.item(self.model.root.subgraphs, subgraph, "subgraph")
        if self.depth >= DEPTH:
            raise ModelError(f"{self.model.name}: subgraph {subgraph} is called from itself, or {DEPTH} deep")
        if len(graph.inputs) != len(arguments):
            raise ModelError(
                f"{self.model.name}: subgraph {subgraph} ({graph.name!r})"
                f" takes {len(graph.inputs)} tensors, but is given {len(arguments)}"
            )
        scope: dict[int, Any] = {}
        for index, value in zip(graph.inputs.tolist(), arguments, strict=True):
            if isinstance(value, Value):
                quant = self.quant(self.tensor(graph, index))
                value = Value(value._expr, value.array, value.name, quant or value.quant, value.home)
            scope[index] = value
        problems, self.problems = self.problems, []
        self.depth += 1
        try:
            self.nodes(subgraph, scope)
            if self.problems:
                raise OpNotImplemented(f"in subgraph {subgraph}: {'; '.join(self.problems)}")
            return [self.find(graph, scope, i, f"subgraph {subgraph}'s outputs") for i in graph.outputs.tolist()]
        finally:
            self.problems = problems
            self.depth -= 1


def _worth(value: Value) -> bool:
    """Whether a result is small enough for evaluation at import."""
    shape = value.shape
    return are_numbers(shape) and math.prod(shape) <= LIMIT


def _small(value: Value) -> bool:
    return value.array is not None and value.array.dtype != object and value.array.size <= LIMIT


RANDOM = {"RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR", "DEQUANTIZE"}
"""Operators that are not folded: random numbers, and those that mark quantised weights."""


OF_PAIRS = {"REAL", "IMAG", "COMPLEX_ABS"}
"""Operators whose converters take complex tensors."""
OF_REAL_PART = {"CAST", "SHAPE", "RANK"}
"""Operators that use only the real part of a complex tensor."""
MOVING = {
    "RESHAPE", "GATHER", "GATHER_ND", "CONCATENATION", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE",
    "PACK", "UNPACK", "TILE", "BROADCAST_TO", "REVERSE_V2", "SELECT", "SELECT_V2",
}  # fmt: skip
"""Operators that move elements of any type."""
WITH_TEXTS = MOVING | {
    "FILL", "EQUAL", "NOT_EQUAL", "SHAPE", "RANK", "ZEROS_LIKE",
    "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "READ_VARIABLE", "ASSIGN_VARIABLE", "UNIQUE", "IF", "WHILE", "CALL",
    "CALL_ONCE", "CUSTOM", "STABLEHLO_COMPOSITE",
}  # fmt: skip
"""Operators that move strings, or compare them by their numbers (`runtime/host_functions/strings.py`)."""


def resource_key(options: Record) -> str:
    """The name of a variable."""
    container, name = options.container or "", options.shared_name or ""
    return f"{container}/{name}" if container else name


def subgraphs_of(op: Record) -> list[int]:
    """Numbers of the subgraphs in an operator's options."""
    found: list[int] = []
    for options in (op.builtin_options, op.builtin_options2):
        if options is None:
            continue
        found += [int(getattr(options, f)) for f in SUBGRAPHS if hasattr(options, f)]
        if hasattr(options, "branch_subgraph_indices"):
            found += [int(i) for i in options.branch_subgraph_indices]
        if options.table in ("StablehloReduceOptions", "StablehloReduceWindowOptions"):
            continue
    return found
