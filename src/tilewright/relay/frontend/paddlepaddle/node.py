"""Context of converters: the operator being converted, with its inputs and attributes by name, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.formats.paddle_messages import Message, attributes, type_name
from tilewright.relay.frontend.common.listed import Converters, ListedImporter, ListedNode
from tilewright.relay.frontend.common.value import Value

converters = Converters()
"""Converters by PaddlePaddle's names of operators: f(operator) -> a value, or the values of its outputs by their names."""
Result = Value | Mapping[str, Value | Sequence[Value]]


def paddle_op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the converter of operators."""
    return converters.of(*names)


class ProgramOp(ListedNode):
    """The operator that is being converted."""

    __slots__ = ("attrs", "inputs")

    def __init__(self, op: Message, name: str, home: ListedImporter, inputs: Mapping[str, Sequence[Value]]) -> None:
        super().__init__(op.type, name, home)
        self.attrs, self.inputs = attributes(op), inputs

    def has(self, name: str) -> bool:
        """Whether there is an input of this name."""
        return bool(self.inputs.get(name))

    def one(self, name: str = "X") -> Value:
        """The only tensor of an input. Raises ValueError if there is none."""
        found = self.inputs.get(name)
        if not found:
            raise ValueError(f"its input {name} is missing")
        return found[0]

    def maybe(self, name: str) -> Value | None:
        """The only tensor of an input, or None."""
        return self.one(name) if self.has(name) else None

    def whole(self, name: str, default: int = 0) -> int:
        """An attribute as an integer."""
        return int(self.attrs.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute as a number."""
        return float(self.attrs.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute as True or False."""
        return bool(self.attrs.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        """An attribute as text."""
        return str(self.attrs.get(name, default))

    def ints(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """An attribute as integers; a single one is a list of one."""
        found = self.attrs.get(name, default)
        return [int(v) for v in (found if isinstance(found, (list, tuple)) else [found])]

    def dtype(self, name: str, default: str = "") -> str:
        """An attribute that is an element type."""
        return type_name(self.whole(name)) if self.whole(name, -1) >= 0 else default

    def numbers(self, attribute: str, tensor: str, several: str = "") -> list[Any]:
        """Integers from a tensor, from a list of tensors of one element, or from an attribute."""
        if several and self.has(several):
            return [int(self.known(v, several).reshape(-1)[0]) for v in self.inputs[several]]
        if tensor and self.has(tensor):
            return [int(v) for v in self.known(self.one(tensor), tensor).reshape(-1)]
        return list(self.ints(attribute))
