"""Context of converters: the node being converted, with its attributes, and the table of converters."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.listed import Converters, ListedImporter, ListedNode
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import ModelError

converters = Converters()
"""Converters by MXNet's names of operators: f(node, *inputs)."""
NOTHING = ("None", "none", "")


class SymbolNode(ListedNode):
    """The node that is being converted. Attributes are text, as the file has them."""

    __slots__ = ("attrs",)

    def __init__(self, kind: str, name: str, attrs: Mapping[str, str], home: ListedImporter) -> None:
        super().__init__(kind, name, home)
        self.attrs = attrs

    def has(self, name: str) -> bool:
        """Whether the node has an attribute with a value."""
        return str(self.attrs.get(name, "None")) not in NOTHING

    def text(self, name: str, default: str = "") -> str:
        """An attribute as text."""
        return str(self.attrs[name]) if self.has(name) else default

    def parsed(self, name: str, default: Any = None) -> Any:
        """An attribute as numbers in tuples. Raises ValueError if it is none."""
        if not self.has(name):
            return default
        try:
            return ast.literal_eval(self.text(name).replace("L", ""))
        except (ValueError, SyntaxError):
            raise ValueError(f"its attribute {name} is {self.text(name)!r}") from None

    def whole(self, name: str, default: int = 0) -> int:
        """An attribute as an integer."""
        return int(self.parsed(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute as a number."""
        return float(self.text(name, str(default)))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute as True or False."""
        return self.text(name, str(default)) in ("True", "true", "1")

    def ints(self, name: str, default: Any = ()) -> list[int]:
        """An attribute as integers; a single one is a list of one."""
        found = self.parsed(name, default)
        return [int(v) for v in (found if isinstance(found, (list, tuple)) else [found])]

    def optional_ints(self, name: str) -> list[int | None]:
        """An attribute as integers, some of them None."""
        found = self.parsed(name, ())
        return [None if v is None else int(v) for v in (found if isinstance(found, (list, tuple)) else [found])]

    def need(self, *names: str) -> None:
        """Raises ModelError if the node lacks one of these attributes."""
        missing = [n for n in names if not self.has(n)]
        if missing:
            raise ModelError(f"it has no attribute {' and no '.join(missing)}")

    def given(self, value: Value | None, what: str, reason: str) -> Value:
        """An input that the node's attributes ask for. Raises ModelError if it is missing."""
        if value is None:
            raise ModelError(f"it has no input {what}, which {reason} needs")
        return value

    def converted(self, x: Value) -> Value:
        """x in the type of the result and of its sums, the attribute dtype."""
        return self.cast(x, self.text("dtype", x.dtype))

    def wider(self, x: Value, dtype: str) -> Value:
        """x in the wider one of its own type and another."""
        return self.cast(x, np.promote_types(numpy_dtype(x.dtype), numpy_dtype(dtype)).name)
