"""Values of converters (known arrays or relay expressions), and the node being converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tilewright.ir import SourceName, Span
from tilewright.relay.cards.card import OpCard
from tilewright.relay.cards.relations import Dim, is_any, shape_text
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, TupleWrapper, Var
from tilewright.relay.frontend.common.value import Value as CommonValue
from tilewright.relay.frontend.common.value import are_numbers, is_large, make_call, make_calls, scalar
from tilewright.relay.frontend.onnx.kinds import CARRIERS, carried
from tilewright.relay.functor import free_vars
from tilewright.relay.op.data_dependent.counted import Counted
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.op.movement.create import shape_of
from tilewright.runtime.host_functions.registry import Config, config_text
from tilewright.support.errors import DiagnosticError, OpAttributeUnImplemented, OpError, OpNotImplemented

if TYPE_CHECKING:
    from tilewright.relay.frontend.common.builder import Builder
    from tilewright.relay.frontend.onnx.graph import Importer


class Unknown(OpNotImplemented):
    """A value that must be known at import. `values`: the model's inputs on whose elements it depends; `shapes`: whether pinned
    shapes would suffice; `whole`: whether the message already has the remedy."""

    def __init__(
        self, message: str, values: frozenset[str] = frozenset(), shapes: bool = False, whole: bool = False
    ) -> None:
        super().__init__(message)
        self.values, self.shapes, self.whole = values, shapes, whole

    @classmethod
    def within(cls, error: Exception, values: frozenset[str]) -> Unknown:
        """The error of a subgraph that would be supported if the elements of these inputs were known."""
        if isinstance(error, Unknown):
            return cls(str(error), error.values | values, error.shapes, error.whole)
        return cls(str(error), values)


class AlreadyReported(OpNotImplemented):
    """A subgraph or function has a node that was already reported by its own name."""


class Value(CommonValue):
    """A tensor of an ONNX model. `kind` names an element type that kernels do not support (strings, float8, int4, ...): see
    `kinds`."""

    __slots__ = ("kind",)

    def __init__(
        self, expr: Expr | None = None, array: np.ndarray | None = None, name: str = "", kind: str = ""
    ) -> None:
        super().__init__(expr, array, name)
        self.kind = kind

    def unknown(self, why: str) -> Unknown:
        """The error for a value that pinned shapes would make known."""
        return Unknown(why, shapes=True, whole=True)

    def plain(self) -> Value:
        """The carrier as a tensor without a kind."""
        return Value(self._expr, self.array)

    @property
    def element(self) -> str:
        """The type of the elements in the model."""
        return self.kind or self.dtype


class SizesValue(Value):
    """Sizes with symbols. If a converter needs them as a tensor, `read` makes it from the shapes of inputs."""

    __slots__ = ("read",)

    def __init__(self, array: np.ndarray, read: Callable[[np.ndarray], Expr]) -> None:
        super().__init__(None, array)
        self.read = read

    def plain(self) -> Value:
        return self

    @property
    def expr(self) -> Expr:
        if self._expr is None and self.array is not None:
            self._expr = self.read(self.array)
        return super().expr


class ListValue:
    """A sequence of the model with known length; its elements are values. `element`: the type of its tensors."""

    __slots__ = ("element", "items")

    def __init__(self, items: Sequence[Any], element: str = "float32") -> None:
        self.items, self.element = list(items), element


class MapValue(ListValue):
    """A map of the model with known keys, in order; `items` are its values."""

    __slots__ = ("keys",)

    def __init__(self, keys: Sequence[Any], items: Sequence[Any], element: str = "float32") -> None:
        super().__init__(items, element)
        self.keys = list(keys)


class Packed:
    """A sequence of the model with a length known only at run time: the concatenated elements of its tensors, and their shapes, a row of
    int64 for each. All its tensors have the same number of axes."""

    __slots__ = ("elements", "shapes")

    def __init__(self, elements: Value, shapes: Value) -> None:
        self.elements, self.shapes = elements, shapes

    @property
    def element(self) -> str:
        """The element type of its tensors."""
        return self.elements.element

    @property
    def rank(self) -> int:
        """The number of axes of its tensors."""
        return self.shapes.known_extent(1)


class Question(NamedTuple):
    """A condition that is known only at run time, in words for messages: the condition, the value if it holds, the value if it does not,
    and the error if it must be known at import."""

    condition: str
    yes: str
    no: str
    unknown: str

    @classmethod
    def of_branches(cls, title: str) -> Question:
        """The texts for the condition of an If."""
        unknown = f"If {title!r}: its condition must be known at import, since its branches return different types"
        return cls(
            f"the condition of {title!r}", "what its then branch returns", "what its else branch returns", unknown
        )


class Choice:
    """A choice between two values by a condition at run time, if they have no common type: tensors of different ranks."""

    __slots__ = ("condition", "no", "question", "yes")

    def __init__(self, condition: Value, yes: Any, no: Any, question: Question) -> None:
        self.condition, self.yes, self.no, self.question = condition, yes, no, question


class EmptyOptional:
    """An empty optional of the model; `element`: the type of its contents."""

    __slots__ = ("element",)

    def __init__(self, element: str = "float32") -> None:
        self.element = element


class DynamicOptional:
    """An optional of the model that may be empty at run time: `has`, a scalar of bool, and its contents `held`."""

    __slots__ = ("has", "held")

    def __init__(self, has: Value, held: Any) -> None:
        self.has, self.held = has, held

    @property
    def element(self) -> str:
        """The element type of its contents."""
        return str(self.held.element)


Item: TypeAlias = "Value | ListValue | Packed | Choice | DynamicOptional | EmptyOptional | None"
"""The value of a name in a graph; None: an omitted input."""
Tensor = Value | Expr | np.ndarray
"""A tensor in any form (see `as_value`)."""
Result: TypeAlias = (
    "Tensor | ListValue | Packed | Choice | DynamicOptional | EmptyOptional | TupleWrapper | Sequence[Result | None]"
)
"""The result of a converter: one result, or several in order (None: an unused one)."""
Converter = Callable[..., Result]
Registered = TypeVar("Registered", bound=Converter)
converters: dict[tuple[str, str], list[tuple[int, Converter]]] = {}
typed_operators: set[tuple[str, str]] = set()
"""Operators whose converters set the kinds of their results themselves, and take values of any kind."""


def onnx_op(*names: str, since: int = 1, domain: str = "", typed: bool = False) -> Callable[[Registered], Registered]:
    """Registers the converter of operators from opset `since` on: f(node, *inputs) with None for omitted inputs."""

    def register(f: Registered) -> Registered:
        for name in names:
            key = (domain, name)
            converters.setdefault(key, []).append((since, f))
            converters[key].sort(key=lambda entry: -entry[0])
            if typed:
                typed_operators.add(key)
        return f

    return register


def find_converter(op_type: str, opset: int, domain: str = "") -> Converter | None:
    """The newest converter for an opset up to `opset`."""
    return next((f for since, f in converters.get((domain, op_type), ()) if since <= opset), None)


class OnnxNode:
    """The node being converted: its attributes, and `call` to make operators with its name as their span."""

    __slots__ = ("attrs", "importer", "name", "op_type", "opset", "outputs", "span", "used")

    def __init__(
        self,
        op_type: str,
        name: str,
        attrs: dict[str, Any],
        opset: int,
        outputs: Sequence[str],
        used: set[str],
        importer: Importer,
    ) -> None:
        self.op_type, self.name, self.attrs, self.opset = op_type, name, attrs, opset
        self.outputs, self.used, self.importer = outputs, used, importer
        self.span = Span(SourceName(name))

    @property
    def builder(self) -> Builder:
        """The node as the builder that all importers share."""
        return self.importer.builder(self.name)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute's value, or the default."""
        return self.attrs.get(name, default)

    def call(self, key: str, *args: object, **attrs: Any) -> Expr:
        """A call of the operator `key` with one result, on values, expressions or lists of them. Sizes in attributes may be
        symbols."""
        return make_call(key, args, attrs, self.span)

    def calls(self, key: str, *args: object, **attrs: Any) -> TupleWrapper:
        """`call` for an operator with several results."""
        return make_calls(key, args, attrs, self.span)

    def value(self, key: str, *args: object, **attrs: Any) -> Value:
        """`call` as a value."""
        return Value(self.call(key, *args, **attrs))

    def host_call(
        self,
        function: str,
        inputs: Sequence[Value],
        shape: Sequence[Dim] | Value,
        element: str,
        config: Config | None = None,
        pure: bool = True,
    ) -> Value:
        """The result of a host function of values of any kind. shape: extents, or a value that has them."""
        attrs: dict[str, Any] = {
            "function": function,
            "dtype": CARRIERS.get(element, element),
            "config": config_text(config or {}),
        }
        kind = element if element in CARRIERS else ""
        if isinstance(shape, Value):
            if shape.is_number and shape.array is not None:
                attrs["shape"] = tuple(int(d) for d in shape.array)
            else:
                return Value(self.call("dyn.host.call", list(inputs), shape, **attrs), kind=kind)
        else:
            attrs["shape"] = tuple(shape)
        return Value(self.call("host.call" if pure else "host.draw", list(inputs), **attrs), kind=kind)

    def host_call_sized(
        self,
        function: str,
        inputs: Sequence[Value],
        rank: int,
        element: str,
        config: Config | None = None,
    ) -> Value:
        """`host_call` with a shape that the host function `<function>.shape` computes."""
        shape = self.host_call(f"{function}.shape", inputs, (rank,), "int64", config)
        return self.host_call(function, inputs, shape, element, config)

    def nested(self, op_type: str, *inputs: Any, opset: int | None = None, **attrs: Any) -> Any:
        """The results of an ONNX operator for values, by the rules of the given or the model's opset, or of the first that has it."""
        at = max(opset or self.importer.opset, min(since for since, _ in converters["", op_type]))
        f = find_converter(op_type, at)
        assert f is not None, op_type
        inner = OnnxNode(op_type, self.name, attrs, at, self.outputs, self.used, self.importer)
        return f(inner, *[i if i is None else as_value(i) for i in inputs])

    def scalar(self, value: float, like: Any) -> Expr:
        """A constant of the dtype of another value."""
        return scalar(value, like)

    def cast(self, x: Any, dtype: str) -> Value:
        """A value converted to another type that kernels support."""
        value = as_value(x)
        if value.dtype == dtype:
            return value
        if value.is_number and value.array is not None:
            with np.errstate(all="ignore"):
                return Value(array=value.array.astype(dtype))
        return Value(self.call("cast", value, dtype=dtype))

    def known(self, value: Value | None, what: str) -> np.ndarray:
        """The elements of an input, which must be known at import. Raises Unknown."""
        if value is None or value.array is None:
            raise Unknown(f"its {what} must be known at import", elements_of(value), shapes=True)
        return value.array

    def numbers(self, value: Value | None, what: str) -> np.ndarray:
        """The elements of an input, which must be known numbers without symbols. Raises Unknown."""
        array = self.known(value, what)
        if array.dtype == object:
            raise self.not_static(what)
        return array

    def not_static(self, what: str) -> Unknown:
        """The error for sizes that must be static."""
        return Unknown(f"its {what} must be known at import", shapes=True)

    def ints(self, value: Value | None, what: str) -> list[int]:
        """A known input as ints; symbols are kept."""
        array = self.known(value, what)
        return [int(v) if isinstance(v, (int, float, np.integer)) else v for v in array.reshape(-1).tolist()]

    def places(self, axes: Iterable[int], ndim: int) -> list[int]:
        """Axes as non-negative numbers. Raises DiagnosticError for axes that do not exist, and for duplicates."""
        given = list(axes)
        for a in given:
            if not -ndim <= a < ndim:
                raise DiagnosticError(f"its axes are {given}, but there are {ndim}")
        found = [a % ndim for a in given]
        if len({*found}) < len(found):
            raise DiagnosticError(f"its axes are {given}, of which two are the same")
        return found

    def place(self, axis: int, ndim: int) -> int:
        """An axis as a non-negative number. Raises DiagnosticError if it does not exist."""
        return self.places([axis], ndim)[0]

    def static(self, value: Value, what: str = "the shape of its input") -> list[int]:
        """A shape as ints. Raises Unknown for symbols."""
        shape = value.shape
        if not are_numbers(shape):
            read = decides_shape(value) if any(map(is_any, shape)) else frozenset()
            raise Unknown(f"{what} must be known, but is {shape_text(shape)}", read, shapes=True)
        return shape

    def static_extent(self, value: Value, axis: int) -> int:
        """An extent as an int. Raises Unknown for a symbol."""
        extent = value.shape[axis]
        if not isinstance(extent, int):
            raise Unknown(
                f"axis {axis} of its input must be known, but is {shape_text([extent])}", decides_shape(value), True
            )
        return extent

    def wants(self, index: int) -> bool:
        """Whether output `index` is used."""
        return index < len(self.outputs) and self.outputs[index] in self.used

    def refuse(self, attribute: str, value: Any, supported: str) -> OpAttributeUnImplemented:
        """The error for an unsupported value of an attribute."""
        return OpAttributeUnImplemented(f"its attribute {attribute} is {value!r}; supported: {supported}")


def as_value(x: Any) -> Value:
    """A tensor in any form as a value. Arrays of types that kernels do not support are held in their carriers."""
    if isinstance(x, Value):
        return x
    if isinstance(x, np.ndarray):
        array, kind = carried(x)
        return Value(array=array, kind=kind)
    if isinstance(x, Expr):
        return Value(x)
    raise TypeError(f"a tensor was expected, but a {type(x).__name__} was found")


def evaluate(value: Item) -> Any:
    """The value of a small expression without unknown inputs, computed by the operators' NumPy references."""
    if isinstance(value, Value) and value.array is None and isinstance(value.expr, (Call, TupleGetItem)):
        try:
            if is_large(value):
                return value
            return Value(array=np.asarray(run_function(Function((), value.expr), [])), kind=value.kind)
        except OpError:
            return value
    return value


def as_values(result: Any) -> list[Any]:
    """The results of a converter, as values."""
    if isinstance(result, (Value, ListValue, Packed, Choice, DynamicOptional, EmptyOptional)) or result is None:
        return [result]
    if isinstance(result, (np.ndarray, Expr)):
        return [as_value(result)]
    if isinstance(result, (TupleWrapper, list, tuple)):
        return [v for r in result for v in as_values(r)]
    raise TypeError(f"a converter returned {type(result).__name__}")


def depends_on(value: Value | None) -> frozenset[str]:
    """Names of the variables from which a value is computed."""
    if value is None or value._expr is None:
        return frozenset()
    return frozenset([v.name_hint for v in free_vars(value._expr)])


def elements_of(value: Value | None) -> frozenset[str]:
    """Names of the variables on whose elements a value depends."""
    return frozenset() if value is None or value._expr is None else _read_by(value._expr, True)


def decides_shape(value: Value) -> frozenset[str]:
    """Names of the variables whose elements decide a value's shape. If none is found, of all variables from which it is computed."""
    return _read_by(value.expr, False) or depends_on(value)


def _read_by(expr: Expr, elements: bool) -> frozenset[str]:
    """Names of the variables whose elements decide an expression's elements, or (without `elements`) only its shape."""
    found: set[str] = set()
    steps: list[tuple[Expr, bool]] = [(expr, elements)]
    seen = set()
    while steps:
        e, elements = steps.pop()
        if (e, elements) in seen:
            continue
        seen.add((e, elements))
        if isinstance(e, Var):
            found |= {e.name_hint} if elements else set()
        elif isinstance(e, Tuple):
            steps += [(f, elements) for f in e.fields]
        elif isinstance(e, TupleGetItem):
            steps.append((e.tuple_value, elements))
        elif isinstance(e, Call) and isinstance(e.attrs, OpCard):
            read = e.attrs.reads() if isinstance(e.attrs, Dynamic) else ()
            inside = elements and not isinstance(e.attrs, shape_of) or isinstance(e.attrs, Counted)
            steps += [(a, inside or i in read) for i, a in enumerate(e.args)]
        else:
            found |= {v.name_hint for v in free_vars(e)}
    return frozenset(found)
