"""Context of converters: the node being converted, lists of tensors, handles, and the table of converters by operator name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from tilewright.formats.tensorflow_messages import Message, dtype_name
from tilewright.ir import IntImm, PrimExpr
from tilewright.relay.cards.relations import Dim, known_equal
from tilewright.relay.expr import Constant, Expr
from tilewright.relay.frontend.common.builder import Builder, plain
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.tensors import shape_of, tensor_array
from tilewright.support.errors import OpNotImplemented

if TYPE_CHECKING:
    from tilewright.relay.frontend.tensorflow.graph import Scope, TensorFlowImporter

Result: TypeAlias = "Value | TensorList | Handle | Complex | None"
"""One result of a node; None: an unused result."""
Converter = Callable[..., "Result | np.ndarray | Sequence[Result]"]
Registered = TypeVar("Registered", bound=Converter)
converters: dict[str, Converter] = {}
takes_texts: set[str] = set()
"""Operators whose converters take tensors of strings."""


def tf_op(*names: str) -> Callable[[Registered], Registered]:
    """Registers the converter of operators: f(call, *inputs) -> a result, or a list of them."""

    def register(f: Registered) -> Registered:
        converters.update(dict.fromkeys(names, f))
        return f

    return register


def string_op(*names: str) -> Callable[[Registered], Registered]:
    """`tf_op` for operators that take tensors of strings."""
    takes_texts.update(names)
    return tf_op(*names)


class Sizes(Value):
    """A small tensor of integers that are expressions over dynamic dimensions: `array` has dtype object."""

    __slots__ = ("builder", "kind")

    def __init__(self, array: np.ndarray, builder: Builder, kind: str) -> None:
        super().__init__(None, array)
        self.builder, self.kind = builder, kind

    @property
    def expr(self) -> Expr:
        """The sizes as a tensor, read at run time."""
        if self._expr is None:
            c, array = self.builder, self.array
            assert array is not None
            parts = [c.cast(c.size(d), self.kind) for d in array.reshape(-1).tolist()]
            whole = c.call("stack", parts, axis=0) if array.ndim else parts[0]
            self._expr = c.reshape(whole, array.shape).expr
        return self._expr

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.kind


def sizes_value(c: Builder, array: Any, kind: str) -> Value:
    """Integers that may contain symbols, as a value."""
    array = np.asarray(array, object)
    flat = [plain(d) for d in array.reshape(-1).tolist()]
    if all([isinstance(d, int) for d in flat]):
        return Value(array=np.array(flat, kind).reshape(array.shape))
    out = np.empty(len(flat), object)
    out[:] = flat
    return Sizes(out.reshape(array.shape), c, kind)


class Handle:
    """A resource. `what`: its kind (variable, tensor array, table); `name`: its name in the model."""

    __slots__ = ("details", "name", "what")

    def __init__(self, what: str, name: str, details: Any = None) -> None:
        self.what, self.name, self.details = what, name, details


class Complex:
    """A complex tensor: its real and its imaginary part."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Value, imag: Value) -> None:
        self.real, self.imag = real, imag


class TensorList:
    """A list of tensors. `items`: separate items of a list of known length (None: not written yet); else `stacked`: the items
    along a new first axis; neither: `length` unwritten items. `shape`: the shape of an item; None if it is unknown."""

    __slots__ = ("dtype", "items", "length", "shape", "stacked")

    def __init__(
        self, dtype: str, shape: Sequence[Dim] | None, items: Sequence[Value | None] | None = None, stacked: Value | None = None,
        length: Any = None,
    ) -> None:  # fmt: skip
        self.dtype, self.shape = dtype, None if shape is None else list(shape)
        self.items, self.stacked = None if items is None else list(items), stacked
        self.length = len(self.items) if self.items is not None else stacked.shape[0] if stacked is not None else length

    def item_shape(self) -> list[Dim] | None:
        """An item's extents; unknown ones are dynamic."""
        written = next((i for i in self.items or () if i is not None), None)
        return (
            written.shape if written is not None else self.stacked.shape[1:] if self.stacked is not None else self.shape
        )


class NodeCall(Builder):
    """The node being converted."""

    __slots__ = ("home", "node", "op", "scope")

    def __init__(self, node: Message, home: TensorFlowImporter, scope: Scope) -> None:
        super().__init__(node.name, home.sizes, home.params)
        self.node, self.op, self.home, self.scope = node, node.op, home, scope

    def renamed(self, op: str) -> NodeCall:
        """The node with the name of another operator."""
        made = NodeCall(self.node, self.home, self.scope)
        made.op = op
        return made

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self.node.attr

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain value: numbers, strings, element types by name, shapes as lists, functions by message."""
        if name not in self.node.attr:
            return default
        return self.attribute(self.node.attr[name])

    def attribute(self, a: Any) -> Any:
        """An AttrValue as a plain value."""
        return self.scope.attribute(a.placeholder) if a.placeholder else plain_attribute(a, self.name)

    def ints(self, x: Value, what: str) -> list[Any]:
        """A known input as ints; dynamic dimensions stay symbolic."""
        if x.array is not None and x.array.dtype == object:
            if any([self.sizes.is_measured(d) for d in x.array.reshape(-1).tolist()]):
                raise OpNotImplemented(f"its {what} must be known before the program runs, but depends on the data")
            return [plain(d) if isinstance(d, (PrimExpr, IntImm)) else int(d) for d in x.array.reshape(-1).tolist()]
        return [int(d) for d in self.known(x, what).reshape(-1)]

    def is_known(self, x: Value) -> bool:
        """Whether the elements are known, as numbers or expressions over sizes."""
        if x.array is not None and x.array.dtype == object:
            return not any([self.sizes.is_measured(d) for d in x.array.reshape(-1).tolist()])
        return x.array is not None or isinstance(x._expr, Constant)

    def number_of(self, x: Value, what: str) -> Any:
        """The only element of a known input."""
        return self.known(x, what).reshape(-1)[0]

    def channels_first(self) -> bool:
        """Whether the node's data_format has channels first."""
        return str(self.attr("data_format", "NHWC")).startswith("NC")

    def shape_attr_merged(self, shape: Any, known: Sequence[Dim]) -> list[Any]:
        """Extents from an attribute or a tensor, with dynamic ones replaced by known ones."""
        if shape is None or len(shape) != len(known):
            return list(known)
        return [
            k if isinstance(s, int) and s < 0 or known_equal(s, k) else s for s, k in zip(shape, known, strict=True)
        ]


def plain_attribute(a: Message, name: str) -> Any:
    """An AttrValue, except a placeholder, as a plain value. `name`: the node's name."""
    if a.HasField("s"):
        return a.s.decode(errors="replace")
    for key in ("i", "f", "b"):
        if a.HasField(key):
            return getattr(a, key)
    if a.HasField("type"):
        return dtype_name(a.type)
    if a.HasField("shape"):
        return shape_of(a.shape)
    if a.HasField("tensor"):
        return tensor_array(a.tensor, name)
    if a.HasField("func"):
        return a.func
    if a.HasField("list"):
        x = a.list
        if len(x.type):
            return [dtype_name(t) for t in x.type]
        if len(x.s):
            return [s.decode(errors="replace") for s in x.s]
        if len(x.shape):
            return [shape_of(s) for s in x.shape]
        return list(x.i) or list(x.f) or list(x.b) or list(x.func)
    return None


def tensor(x: Result, what: str = "input") -> Value:
    """The value x, which must be a tensor. Raises OpNotImplemented for others."""
    if isinstance(x, Value):
        return x
    kind = {TensorList: "a list of tensors", Handle: "a resource", Complex: "a tensor of complex numbers"}.get(
        type(x), "no tensor"
    )
    raise OpNotImplemented(f"its {what} is {kind}, where a tensor is taken")
