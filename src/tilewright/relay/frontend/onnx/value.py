"""What converters work with: values that are known arrays or relay expressions, and the node being converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import IntImm, PrimExpr, SourceName, Span, TensorType
from tilewright.relay.expr import Call, Constant, Expr, TupleWrapper, const_array
from tilewright.relay.op.card import as_expr, find_card
from tilewright.relay.op.relations import dims, shape_text
from tilewright.relay.transform.infer_type import infer_types
from tilewright.support.errors import OpAttributeUnImplemented, OpNotImplemented


class Value:
    """A tensor of the model: `array` when its elements are known (dtype object: a shape with symbols), else only an expression."""

    __slots__ = ("_expr", "array", "name")

    def __init__(self, expr: Expr | None = None, array: np.ndarray | None = None, name: str = "") -> None:
        self._expr, self.array, self.name = expr, array, name

    @property
    def expr(self) -> Expr:
        """The relay expression; a known array becomes one constant, shared by all its uses."""
        if self._expr is None:
            assert self.array is not None
            if self.array.dtype == object:
                raise OpNotImplemented(
                    f"{self.name!r} depends on a dimension that is not known. Pin the model's input shapes: shape={{name: [...]}}"
                )
            if self.array.dtype.kind in "USO":
                raise OpNotImplemented(f"{self.name!r} holds strings; tensors of numbers are supported")
            self._expr = Constant(const_array(self.array))
        return self._expr

    @property
    def is_number(self) -> bool:
        """Whether all elements are known, none of them as a symbol."""
        return self.array is not None and self.array.dtype != object

    @property
    def shape(self) -> list[Any]:
        """Extents: ints, or symbols."""
        return list(self.array.shape) if self.array is not None else dims(self.type)

    @property
    def type(self) -> TensorType:
        """The inferred tensor type."""
        return infer_types(self.expr)  # type: ignore[return-value]

    @property
    def dtype(self) -> str:
        """Element type."""
        return (
            "int64"
            if self.array is not None and self.array.dtype == object
            else str(self.type.dtype)
            if self.array is None
            else self.array.dtype.name
        )

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


Result = Expr | Value | np.ndarray | TupleWrapper | Sequence[Any]
Converter = Callable[..., Result]
converters: dict[str, list[tuple[int, Converter]]] = {}


def onnx_op(*names: str, since: int = 1) -> Callable[[Converter], Converter]:
    """Register the converter of operators from opset `since` on: f(node, *inputs) with None for inputs left out."""

    def register(f: Converter) -> Converter:
        for name in names:
            converters.setdefault(name, []).append((since, f))
            converters[name].sort(key=lambda entry: -entry[0])
        return f

    return register


def find_converter(op_type: str, opset: int) -> Converter | None:
    """The newest converter not newer than `opset`."""
    return next((f for since, f in converters.get(op_type, ()) if since <= opset), None)


class OnnxNode:
    """The node being converted: its attributes, and `call` to make operators that carry its name as their span."""

    __slots__ = ("attrs", "importer", "name", "op_type", "opset", "outputs", "span", "used")

    def __init__(
        self,
        op_type: str,
        name: str,
        attrs: dict[str, Any],
        opset: int,
        outputs: Sequence[str],
        used: set[str],
        importer: Any,
    ) -> None:
        self.op_type, self.name, self.attrs, self.opset = op_type, name, attrs, opset
        self.outputs, self.used, self.importer = outputs, used, importer
        self.span = Span(SourceName(name))

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        return self.attrs.get(name, default)

    def call(self, key: str, *args: Any, **attrs: Any) -> Any:
        """The operator `key` on values, expressions or lists of them. Attributes may hold sizes that are symbols."""
        card = find_card(key)
        if any(map(_has_symbols, attrs.values())):
            return Call(card.op, tuple([as_expr(_unwrap(a)) for a in args]), card(**attrs), (), self.span)
        return card.call([_unwrap(a) for a in args], attrs, self.span)

    def scalar(self, value: float, like: Any) -> Expr:
        """A constant of another value's dtype."""
        return Constant(const_array(np.array(value, like if isinstance(like, str) else like.dtype)))

    def known(self, value: Value | None, what: str) -> np.ndarray:
        """The elements of an input that must be known. Raises OpNotImplemented."""
        if value is None or value.array is None:
            raise OpNotImplemented(
                f"its {what} must be known at import. Fold the model (onnxsim), or pin the input shapes: shape={{name: [...]}}"
            )
        return value.array

    def ints(self, value: Value | None, what: str) -> list[int]:
        """A known input as ints; symbols stay."""
        array = self.known(value, what)
        return [v if not isinstance(v, (int, np.integer)) else int(v) for v in array.reshape(-1).tolist()]

    def static(self, value: Value, what: str = "the shape of its input") -> list[int]:
        """A shape without symbols. Raises OpNotImplemented."""
        shape = value.shape
        if not all(isinstance(d, int) for d in shape):
            raise OpNotImplemented(
                f"{what} must be known, but is {shape_text(shape)}. Pin it: shape={{input name: [...]}}"
            )
        return shape

    def wants(self, index: int) -> bool:
        """Whether somebody reads output `index`."""
        return index < len(self.outputs) and self.outputs[index] in self.used

    def refuse(self, attribute: str, value: Any, supported: str) -> OpAttributeUnImplemented:
        """The error for an attribute value that is not supported."""
        return OpAttributeUnImplemented(f"its attribute {attribute} is {value!r}; supported: {supported}")


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_symbols, value))
    return isinstance(value, PrimExpr) and not isinstance(value, IntImm)


def _unwrap(a: Any) -> Any:
    if isinstance(a, Value):
        return a.expr
    if isinstance(a, (list, tuple)):
        return [_unwrap(x) for x in a]
    return a
