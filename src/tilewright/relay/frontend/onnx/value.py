"""The node being converted, and the register of converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import SourceName, Span
from tilewright.relay.expr import Expr, TupleWrapper
from tilewright.relay.frontend.common.value import Value as Value
from tilewright.relay.frontend.common.value import make_call, scalar
from tilewright.relay.op.relations import shape_text
from tilewright.support.errors import OpAttributeUnImplemented, OpNotImplemented

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
        return make_call(key, args, attrs, self.span)

    def scalar(self, value: float, like: Any) -> Expr:
        """A constant of another value's dtype."""
        return scalar(value, like)

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
