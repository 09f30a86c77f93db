"""Inputs of a model: a variable for each tensor, also of sequences, and known arrays for given values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import Message, numpy_type
from tilewright.relay.cards.relations import Dim, dims, shape_text
from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.names import input_variable
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.interface import Interface, Leaf, MapOf, Tree
from tilewright.relay.frontend.onnx.kinds import CARRIERS, kind_of
from tilewright.relay.frontend.onnx.value import EmptyOptional, Item, ListValue, MapValue, Value, as_value
from tilewright.support.errors import ModelError, OpNotImplemented
from tilewright.tir import Any as AnyDim
from tilewright.tir import PrimExpr, SizeVar


class Inputs:
    """Values of a graph's inputs. `variables` are the program's parameters in order, `symbols` the dynamic dimensions."""

    def __init__(self, name: str, interface: Interface) -> None:
        self.name, self.interface = name, interface
        self.variables: list[Var] = []
        self.strings: list[str] = []
        """The names of inputs of strings."""
        self.symbols: dict[str, SizeVar] = {}

    def values(
        self,
        real: list[Any],
        shapes: Mapping[str, Any],
        dtype: str | Mapping[str, str],
        given: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The value of each input. shapes: extents to pin, or the structure of a sequence; given: inputs whose values are known."""
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
                f" {', '.join(f'{i.name!r} {shape_text(declared(i))}' for i in real) or 'none'}"
                + (f". Did you mean {near[0]!r}?" if near else "")
            )
        found = {}
        for i in real:
            if i.name in given:
                found[i.name] = known_value(given[i.name], i.type)
                self.interface.inputs[i.name] = "known"
            elif i.type.HasField("tensor_type"):
                value, tree = self.tensor(i.name, i, shapes.get(i.name), dtype)
                found[i.name], self.interface.inputs[i.name] = value, tree
            else:
                value, tree = self.structured(i, shapes.get(i.name))
                found[i.name], self.interface.inputs[i.name] = value, tree
        return found

    def dynamic(self) -> list[str]:
        """A text of the inputs with dynamic dimensions, such as `'x' (n, 4)`."""
        shapes = [(v.name_hint, dims(v.type_annotation)) for v in self.variables]  # type: ignore[arg-type]
        return [f"{n!r} {shape_text(s)}" for n, s in shapes if not all([isinstance(d, int) for d in s])]

    def tensor(self, name: str, info: Message, shape: Any, dtype: str | Mapping[str, str]) -> tuple[Value, Leaf]:
        """A variable, and its leaf of the interface."""
        tensor = info.type.tensor_type
        element = element_name(tensor.elem_type)
        if not element:
            element = dtype if isinstance(dtype, str) else dtype.get(name, "float32")
        return self.variable(name, self.pinned(info, shape), element)

    def variable(self, name: str, shape: Sequence[Dim], element: str) -> tuple[Value, Leaf]:
        """A new parameter of the program."""
        kind = element if element in CARRIERS else ""
        if kind:
            compatibility.CARRIERS.seen(f"{name} ({kind})")
        var = input_variable(self.name, name, shape, CARRIERS.get(element, element))
        self.variables.append(var)
        if kind == "string":
            self.strings.append(name)
        return Value(var, None, name, kind), Leaf(len(self.variables) - 1, kind)

    def structured(self, info: Message, shape: Any) -> tuple[Any, Tree]:
        """A sequence, optional or map of the given structure: (dtype, shape) of each tensor, as returned by `interface.structure`."""
        if shape is None and info.type.HasField("optional_type"):
            return EmptyOptional(element_of(info.type)), None
        if shape is None:
            raise OpNotImplemented(
                f"{self.name}: the input {info.name!r} is not a tensor; give the dtypes and shapes of its tensors:"
                f" shape={{{info.name!r}: [('float32', (2, 3)), ...]}}"
            )
        return self.tree(info.name, shape, element_of(info.type))

    def tree(self, name: str, shape: Any, element: str) -> tuple[Any, Tree]:
        """The value and the interface of a structure."""
        if shape is None:
            return EmptyOptional(element), None
        if len(shape) == 2 and shape[0] == "map":
            keys = [k for k, _ in shape[1]]
            parts = [self.tree(f"{name}.{k}", s, element) for k, s in shape[1]]
            return MapValue(keys, [v for v, _ in parts], element), MapOf(keys, [t for _, t in parts])
        if len(shape) == 2 and isinstance(shape[0], str):
            return self.variable(name, shape[1], shape[0])
        parts = [self.tree(f"{name}.{k}", s, element) for k, s in enumerate(shape)]
        return ListValue([v for v, _ in parts], element), [t for _, t in parts]

    def pinned(self, info: Message, given: Sequence[Dim] | None) -> list[int | SizeVar] | list[Dim]:
        """An input's extents: given ones, which must agree with declared ones, and symbols elsewhere."""
        known = declared(info)
        if given is None:
            if not info.type.tensor_type.HasField("shape"):
                raise ModelError(
                    f"{self.name}: the input {info.name!r} has no declared shape. Pin it: shape={{{info.name!r}: [...]}}"
                )
            return [d if isinstance(d, int) else self.symbol(d, info.name, k) for k, d in enumerate(known)]
        given = list(given)
        if info.type.tensor_type.HasField("shape") and len(given) != len(known):
            raise ModelError(
                f"{self.name}: the input {info.name!r} has {len(known)} axes {shape_text(known)}, but shape gives it"
                f" {len(given)}: {shape_text(given)}"
            )
        return [self.extent(info.name, k, d, known) for k, d in enumerate(given)]

    def extent(self, name: str, axis: int, d: Any, shape: list[Any]) -> Dim:
        """One pinned extent, which must agree with the declared one."""
        known = shape[axis] if axis < len(shape) else None
        if isinstance(d, (int, np.integer)) and d >= 0:
            if isinstance(known, int) and known != d:
                raise ModelError(
                    f"{self.name}: axis {axis} of the input {name!r} is declared {known}, but shape gives it {d}."
                    f" The declared shape is {shape_text(shape)}"
                )
            return int(d)
        if isinstance(d, PrimExpr) and not isinstance(d, AnyDim):
            return d
        if isinstance(d, (int, np.integer)) and d < -1:
            raise ModelError(
                f"{self.name}: axis {axis} of the input {name!r} cannot have the extent {d};"
                " give a positive number, or -1 to keep it symbolic"
            )
        return known if isinstance(known, int) else self.symbol(known or "", name, axis)

    def symbol(self, param: str, name: str, axis: int) -> SizeVar:
        """The symbol of a named dimension (the same for all its uses), or of an input's axis."""
        key = re.sub(r"\W", "_", param) if param and param != "?" else re.sub(r"\W", "_", f"{name}_{axis}")
        return self.symbols.setdefault(key, SizeVar(key, "int64"))


def declared(info: Message) -> list[Any]:
    """The declared extents of a tensor: numbers, and names of dynamic dimensions."""
    if any([d.dim_value < 0 for d in info.type.tensor_type.shape.dim]):
        compatibility.NEGATIVE_EXTENTS.seen(info.name)
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 and not d.dim_param else d.dim_param
        for d in info.type.tensor_type.shape.dim
    ]


def element_name(number: int) -> str:
    """The name of an ONNX element type; "" for an unknown one."""
    if not number:
        return ""
    dtype = numpy_type(number)
    return kind_of(dtype) or dtype.name


def element_of(proto: Message) -> str:
    """The element type of the tensors in an ONNX type."""
    if proto.HasField("tensor_type"):
        return element_name(proto.tensor_type.elem_type) or "float32"
    if proto.HasField("sequence_type"):
        return element_of(proto.sequence_type.elem_type)
    if proto.HasField("optional_type"):
        return element_of(proto.optional_type.elem_type)
    return element_of(proto.map_type.value_type) if proto.HasField("map_type") else "float32"


def known_value(value: Any, proto: Message) -> Item:
    """An input with known elements."""
    if value is None:
        return EmptyOptional(element_of(proto))
    if isinstance(value, (list, tuple)):
        return ListValue([known_value(v, proto) for v in value], element_of(proto))
    if isinstance(value, Mapping):
        return MapValue(list(value), [known_value(np.asarray(v), proto) for v in value.values()], element_of(proto))
    return as_value(np.asarray(value))
